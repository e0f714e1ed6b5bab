package main

import (
	_ "embed"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/orbweaver/orbweaver/internal/node"
)

// licenses has the licence of each module that is linked into the program, and
// of Go. A test compares it with the modules: go test -run Licenses -update
// writes it anew.
//
//go:embed THIRD-PARTY-LICENSES
var licenses string

// VersionCmd is "version".
type VersionCmd struct {
	Licenses bool `help:"Print the licences of the libraries in this program instead."`
}

// Run prints the version of the program and of Go, or the licences.
func (c VersionCmd) Run(out io.Writer) error {
	if c.Licenses {
		_, err := io.WriteString(out, licenses)
		return err
	}
	goVersion := ""
	if bi, ok := debug.ReadBuildInfo(); ok {
		goVersion = " " + bi.GoVersion
	}
	_, err := fmt.Fprintf(out, "orbweaver %s%s\n", node.Version, goVersion)
	return err
}
