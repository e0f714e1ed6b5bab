// Package pb answers: what do the calls between agents look like on the wire?
//
// All but this file is generated from exchange.proto, by programs that go get
// brings. Package exchange is the only one that speaks it.
package pb

//go:generate go run -tags generate generate.go
