// Package servers starts private database servers for tests and examples: each with a directory, a port on loopback and a password of its own, as processes that the
// caller can stop, freeze and kill. Nothing is installed and nothing that runs already is touched; a program that is missing is a *MissingError, which names the Debian package.
//
// It serves Unix systems only.
package servers

import "fmt"

// MissingError is a server program that is not installed. Package is Debian's name for what brings it.
type MissingError struct{ Program, Package string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not installed; on Debian and its kin: apt-get install %s", e.Program, e.Package)
}
