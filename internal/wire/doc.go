// Package wire turns commands, results, snapshots and the messages of calls between nodes into bytes, and back.
//
// Three kinds of bytes, three ways to change them later:
//
//   - Log entries (AppendBatch, DecodeBatch) and snapshots (WriteSnapshot, ReadSnapshot) are read for ever and must be
//     understood alike by every member. They name the feature level that a reader needs; a binary below it gets a
//     *LevelError and has to stop before it applies anything further.
//   - A command that this level does not understand, within an entry that it does, is an error result and not a failure: it
//     is decoded to OpNone, which the state machine answers with CodeMalformed on every member alike.
//   - Messages between nodes (ProposeRequest, StatusReply and so on) live for one call. Each begins with a version byte and
//     grows only at its end: an older reader ignores what it does not know, a newer one takes what is missing for zero.
//
// One value has one encoding: integers are minimal, a field that is present is not zero, nothing is left over. So equal
// state gives equal bytes, and a test can ask that encoding what was decoded gives back the input.
//
// No input can make this package panic, or allocate for bytes that a length only claims and that are not there.
// Decoded values never alias the input: raft and the transport reuse their buffers, and a name that pinned the entry it came
// in would keep up to 256 KiB alive for one lock.
package wire
