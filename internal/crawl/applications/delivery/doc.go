// Package delivery answers: which pages has an application still to collect?
//
//	Append -> Flush -> Sync: durable -> Read -> Acknowledge -> the files before are deleted
//
// A Store has one Log for each application. A Log is a sequence of lines (package lines) in several files. The position
// of a line is the number of bytes before it since the Log began. The file of a line has the position of its first line
// as its name. The file "acknowledged" has a position in decimal digits: the application has collected all lines before
// it.
//
// Invariants:
//   - Read returns only lines that are synced, and for which the owner has called what Syncing returned. So after a
//     kill or a power failure, every line that Read has returned is still there, at its position.
//   - An acknowledged position is durable and never goes back. Read returns no line before it.
//   - A file is deleted only when all of its lines are acknowledged. The last two files stay: after a crash they tell
//     which lines are there of those that the journal's last records refer to.
//
// A Log keeps the positions of its lines that are not acknowledged in RAM: 16 bytes each. Its owner bounds them by
// fetching nothing more for an application that does not collect its pages.
package delivery
