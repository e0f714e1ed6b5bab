package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// tool returns a command of Node, which tools/soak/install.sh installs.
func tool(t *testing.T, name string, args ...string) *exec.Cmd {
	venv := os.Getenv("ORBWEAVER_VENV")
	if venv == "" {
		venv = filepath.Join(must.Get(os.UserCacheDir())(t), "orbweaver-venv")
	}
	bin := filepath.Join(venv, "bin")
	if _, err := os.Stat(filepath.Join(bin, "node")); err != nil {
		testneed.Missing(t, "Node: run tools/soak/install.sh: ", err)
	}
	if name == "node" {
		name = filepath.Join(bin, name)
	}
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	return cmd
}

// A walk with Playwright finds the pages of the truth, and each shows its text. The web then has seen all pages and
// files.
func TestWalk(t *testing.T) {
	testtier.OnlySoak(t, "it shows 311 pages in a browser")
	if _, err := exec.LookPath("chromium"); err != nil {
		testneed.Missing(t, "Chromium: ", err)
	}
	w, _ := serve(t)
	out, err := tool(t, "node", "../../../tools/soak/walk.mjs", "--proxy", "http://"+w.HTTPAddr(), "--tabs", "4",
		"--host", reactHost, "--host", vueHost, "--host", svelte,
		"--truth", "http://"+w.ControlAddr()+"/.testweb/pages", Seeds()[0]).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out[max(0, len(out)-4000):])
	}
	for _, r := range w.Report().Apps {
		if r.Filled != r.Pages || r.Loaded != r.Files {
			t.Errorf("%s: %s, missed %q %q %q", r.Name, r, r.Missed, r.Unfilled, r.Unloaded)
		}
	}
}

// The sources give the built files.
func TestBuild(t *testing.T) {
	testtier.OnlySoak(t, "it installs packages from npm")
	if out, err := tool(t, "sh", "build.sh").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
