package e2e

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// gate lists the tests of the gate: what only real processes show, once each, and the files in deploy. They await
// conditions, and compare no durations. All other tests of this package run in the soak, or by name with -run.
var gate = []string{
	"TestGate",
	"TestStaticBinary",   // the README's build command
	"TestLimits",         // one crawl to its end, and to each limit: exit codes 0, 12, 14, 15
	"TestSignals",        // SIGINT and SIGTERM: 11
	"TestSecondSignal",   // a second SIGINT: 13
	"TestBrokenState",    // a damaged journal: 17
	"TestDiskFull",       // a full disk, and resume: 3
	"TestKilledOnce",     // kill -9, and resume
	"TestCluster",        // agents with and without keys
	"TestClusterRefetch", // the death of an agent and of its disk
	"TestAlertsAreTested",
	"TestQueriesNameMetrics", // of alerts and dashboards: they are documented
}

// onlyGate leaves out the tests that the gate does not list, unless the user chose tests or the soak
// runs.
func onlyGate() error {
	if testtier.Soak() || flag.Lookup("test.run").Value.String() != "" {
		return nil
	}
	return flag.Set("test.run", "^("+strings.Join(gate, "|")+")$")
}

// Each test of the gate's list exists.
func TestGate(t *testing.T) {
	files := must.Get(filepath.Glob("*_test.go"))(t)
	var tests []string
	for _, name := range files {
		f := must.Get(parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution))(t)
		for _, d := range f.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				tests = append(tests, f.Name.Name)
			}
		}
	}
	for _, name := range gate {
		if !slices.Contains(tests, name) {
			t.Errorf("the gate lists %s, which does not exist", name)
		}
	}
}
