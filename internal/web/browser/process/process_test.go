package process

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestVersions(t *testing.T) {
	for said, want := range map[string]struct {
		version int
		err     error
	}{
		"Chromium 131.0.6778.85 built on Debian GNU/Linux 12 (bookworm)\n": {131, nil},
		"Google Chrome 120.0.6099.109 \n":                                  {120, nil},
		"Google Chrome for Testing 143.0.7499.4\n":                         {143, nil},
		"Google Chrome Beta 144\n":                                         {144, nil},
		"warning: something\nChromium 119.0.1.2 snap\n":                    {119, ErrOld},
		"Mozilla Firefox 133.0":                                            {0, ErrNotChromium},
		"":                                                                 {0, ErrNotChromium},
		"Chromium 99999999999999999999":                                    {999999, nil},
		"Chromium x":                                                       {0, ErrNotChromium},
	} {
		p, err := parse("/bin/x", said)
		if !errors.Is(err, want.err) || p.Version != want.version {
			t.Errorf("%q: %+v %v, want %+v", said, p, err, want)
		}
	}
}

func TestFindNone(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Find(t.Context(), "", os.Environ()); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	if _, err := Find(t.Context(), "/no/such/program", nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestEnvironment has secrets in the crawler's environment, which no browser may see.
func TestEnvironment(t *testing.T) {
	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "ORBWEAVER_TOKEN", "HTTPS_PROXY", "SSH_AUTH_SOCK"} {
		t.Setenv(name, "a secret")
	}
	for _, e := range environment("/home/x", os.Environ()) {
		if strings.Contains(e, "a secret") {
			t.Error(e)
		}
	}
}

func TestTailIsBounded(t *testing.T) {
	b := &tail{}
	for range 1000 {
		if n, err := b.Write([]byte(strings.Repeat("x", 1000))); n != 1000 || err != nil {
			t.Fatal(n, err)
		}
	}
	if _, err := b.Write([]byte(strings.Repeat("y", 3*maxTail) + "end")); err != nil {
		t.Fatal(err)
	}
	if s := b.String(); len(s) != maxTail || !strings.HasSuffix(s, "yend") {
		t.Errorf("%d bytes end with %q", len(s), s[len(s)-4:])
	}
}

// config describes a real browser.
func config(t *testing.T) Config {
	t.Helper()
	program, err := Find(t.Context(), "", os.Environ())
	if errors.Is(err, ErrNone) {
		testneed.Missing(t, "Chromium")
	} else if err != nil {
		t.Fatal(err)
	}
	return Config{Program: program, Dir: t.TempDir(), Environ: os.Environ(), NoSandbox: os.Geteuid() == 0}
}

// TestNothingIsLeft ends a browser while its processes run, and after its main process was killed.
func TestNothingIsLeft(t *testing.T) {
	c := config(t)
	for _, killed := range []bool{false, true} {
		p := must.Get(Start(t.Context(), c))(t)
		all := members(p.cmd.Process.Pid)
		if bytes, n := p.Memory(); len(all) > 0 && (bytes < 10<<20 || n < 3) {
			t.Errorf("%d processes have %d bytes", n, bytes)
		}
		if killed {
			kill(p.cmd.Process.Pid)
			<-p.Exited()
		}
		p.End()
		for _, m := range all {
			for i := 0; ofProfile(m.pid, p.profile); i++ {
				if i == 1000 {
					t.Fatalf("process %d is left", m.pid)
				}
				time.Sleep(10 * time.Millisecond) // the kernel has still to end it
			}
		}
		if left := must.Get(os.ReadDir(c.Dir))(t); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	}
}

func TestRootNeedsNoSandbox(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root is refused")
	}
	if _, err := Start(t.Context(), Config{Dir: t.TempDir()}); !errors.Is(err, ErrRoot) {
		t.Error(err)
	}
}

// TestNotABrowser starts programs that are none.
func TestNotABrowser(t *testing.T) {
	for _, path := range []string{"/bin/true", "/bin/false", "/bin/cat", "/no/such/program"} {
		c := Config{Program: Program{Path: path}, Dir: t.TempDir(), NoSandbox: true}
		if _, err := Start(t.Context(), c); !errors.Is(err, ErrStart) {
			t.Errorf("%s: %v", path, err)
		}
		if left := must.Get(os.ReadDir(c.Dir))(t); len(left) > 0 {
			t.Errorf("%s: %v is left", path, left)
		}
	}
}

func TestClear(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(dir+"/profile-1", 0o700), os.WriteFile(dir+"/profile-1/x", nil, 0o600),
		os.Mkdir(dir+"/other", 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := Clear(dir); err != nil {
		t.Fatal(err)
	}
	if left := must.Get(os.ReadDir(dir))(t); len(left) != 1 || left[0].Name() != "other" {
		t.Errorf("%v is left", left)
	}
}
