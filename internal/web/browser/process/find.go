package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Oldest is the oldest version of Chromium that views work with.
const Oldest = 120

// names are the programs that Find looks for, the best first.
var names = []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome",
	"headless_shell"}

var (
	// ErrNone: no Chromium is in PATH.
	ErrNone = errors.New("no Chromium in PATH (looked for " + strings.Join(names, ", ") + ")")
	// ErrNotChromium: the program does not say that it is Chromium.
	ErrNotChromium = errors.New("not Chromium")
	// ErrOld: the version is lower than Oldest.
	ErrOld = fmt.Errorf("older than version %d", Oldest)
)

// A Program is a Chromium of this machine.
type Program struct {
	Path    string
	Name    string // "Chromium 131.0.6778.85"
	Version int    // 131
}

// version is the switch that makes a program tell its version.
const version = "version"

var versionForm = regexp.MustCompile(`\b(?:Chromium|Google Chrome|Chrome)[A-Za-z ]* ((\d{1,6})(?:\.\d{1,9}){0,3})`)

// Find asks the program at path, or if path is "" the first one in PATH, for its version. The errors are ErrNone,
// ErrNotChromium, ErrOld, and those of the start of a program. environ is the crawler's environment, as os.Environ
// returns it, of which the program sees a part.
func Find(ctx context.Context, path string, environ []string) (Program, error) {
	if path == "" {
		for _, name := range names {
			if found, err := exec.LookPath(name); err == nil {
				path = found
				break
			}
		}
		if path == "" {
			return Program{}, ErrNone
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	home, err := os.MkdirTemp("", "orbweaver-browser-")
	if err != nil {
		return Program{}, err
	}
	defer os.RemoveAll(home)
	said := &tail{}
	cmd := exec.CommandContext(ctx, path, dashes+version)
	cmd.Dir = home
	cmd.Env, cmd.Stdout, cmd.WaitDelay = environment(home, environ), said, time.Second
	if err := cmd.Run(); err != nil {
		return Program{}, fmt.Errorf("%s: asked for its version: %w", path, err)
	}
	return parse(path, said.String())
}

// parse reads what a program says of its version.
func parse(path, said string) (Program, error) {
	m := versionForm.FindStringSubmatch(said)
	if m == nil {
		return Program{}, fmt.Errorf("%s: %w: asked for its version, it says %.80q", path, ErrNotChromium,
			strings.TrimSpace(said))
	}
	number, err := strconv.Atoi(m[2])
	if err != nil {
		return Program{}, fmt.Errorf("%s: %w", path, err)
	}
	p := Program{path, m[0], number}
	if number < Oldest {
		return p, fmt.Errorf("%s: %s is %w", path, p.Name, ErrOld)
	}
	return p, nil
}

// known lists what a browser may know of the crawler's environment. Keys of stores and proxies are not in it.
var known = []string{"PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "FONTCONFIG_FILE", "FONTCONFIG_PATH",
	"SYSTEMROOT"}

// environment is the environment of a browser that runs in its home. Its folder for temporary files is that, too, by a
// name that is short wherever it is: Chromium has sockets there, whose names may have 108 bytes.
func environment(home string, crawlers []string) []string {
	env := []string{"HOME=" + home, "TMPDIR=.", "XDG_CONFIG_HOME=" + home, "XDG_CACHE_HOME=" + home,
		"DBUS_SESSION_BUS_ADDRESS=disabled:"}
	for _, e := range crawlers {
		if name, _, _ := strings.Cut(e, "="); slices.Contains(known, name) {
			env = append(env, e)
		}
	}
	return env
}

// tail keeps the last bytes that are written to it. One goroutine writes.
type tail struct{ b []byte }

const maxTail = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) > maxTail {
		p = p[len(p)-maxTail:]
	}
	if over := len(t.b) + len(p) - maxTail; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	t.b = append(t.b, p...)
	return n, nil
}

func (t *tail) String() string { return string(t.b) }
