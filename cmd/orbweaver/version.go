package main

import (
	_ "embed"
	"encoding/json"
	"io"
	"runtime/debug"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node"
)

// licenses holds the licences of Go and of each module that is linked into the program. A
// test compares it with the modules; "go test -run Licenses -update" rewrites it.
//
//go:embed THIRD-PARTY-LICENSES
var licenses string

// VersionCmd implements "version".
type VersionCmd struct {
	JSON     bool `name:"json" xor:"form" help:"Print a JSON object instead."`
	Licenses bool `xor:"form" help:"Print the licences of the libraries in the program instead."`
}

// Run prints the versions of the program and of Go, or the licences.
func (c VersionCmd) Run(out io.Writer) error {
	if c.Licenses {
		_, err := io.WriteString(out, licenses)
		return err
	}
	bi, _ := debug.ReadBuildInfo()
	b := node.BuildOf(bi)
	if c.JSON {
		return json.NewEncoder(cli.Exact(out)).Encode(b)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
