// Package testdisk answers: what does a program leave on a disk that fails or loses its power?
//
// It has two file systems for tests, both a disk.FS. Mem is in memory and simulates a power failure. Faulty wraps
// another one and fails chosen calls.
package testdisk
