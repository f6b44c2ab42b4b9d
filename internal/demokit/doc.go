// Package demokit is what the examples that start several processes have in common: children that end with their parent, free ports, bounded waits, and a timeline of what
// happens for people to read. Unix systems only, but for what keeps the end of a log.
package demokit
