package main

import (
	_ "embed"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/orbweaver/orbweaver/internal/node"
)

// licenses holds the licences of Go and of each module that is linked into the program. A
// test compares it with the modules; "go test -run Licenses -update" rewrites it.
//
//go:embed THIRD-PARTY-LICENSES
var licenses string

// VersionCmd implements "version".
type VersionCmd struct {
	Licenses bool `help:"Print the licences of the libraries in the program instead."`
}

// Run prints the versions of the program and of Go, or the licences.
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
