package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// A terminal is a pane of tmux that runs a command.
type terminal struct {
	t      *testing.T
	socket string
}

func newTerminal(t *testing.T, cols, lines int, command ...string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		testneed.Missing(t, "tmux is not installed")
	}
	term := &terminal{t, filepath.Join(t.TempDir(), "tmux")}
	term.tmux(append([]string{"new-session", "-d", "-x", fmt.Sprint(cols), "-y", fmt.Sprint(lines), "-n", "w",
		";", "set-option", "-g", "remain-on-exit", "on", ";", "respawn-pane", "-k"}, command...)...)
	t.Cleanup(func() { exec.Command("tmux", "-S", term.socket, "kill-server").Run() })
	return term
}

func (term *terminal) tmux(args ...string) string {
	term.t.Helper()
	args = append([]string{"-S", term.socket, "-f", "/dev/null"}, args...)
	out, err := exec.Command("tmux", args...).CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// shows waits until the screen is as wanted, and fails the test if it never is.
func (term *terminal) shows(what string, wanted func(screen []string) bool) {
	term.t.Helper()
	var screen string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		screen = term.tmux("capture-pane", "-p")
		if wanted(strings.Split(strings.TrimSuffix(screen, "\n"), "\n")) {
			return
		}
	}
	term.t.Fatalf("the screen never shows %s:\n%s", what, screen)
}

func starting(screen []string, prefix string) (n int) {
	for _, line := range screen {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// TestTerminal: on a real terminal that changes its size, the display of a crawl is there once, below what the crawl
// has said, and fits.
func TestTerminal(t *testing.T) {
	testtier.OnlySoak(t, "TestLive of package report judges the lines; here a terminal shows them")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<a href='/1%s'>", strings.Repeat("/long", 50))
	}))
	defer web.Close()
	dir := filepath.Join(t.TempDir(), "crawl")
	term := newTerminal(t, 80, 24, "orbweaver", "crawl", "--allow-private", "--delay", "10m", "--dir", dir, web.URL)
	state := "waiting "
	display := func(cols, lines int) func([]string) bool {
		return func(screen []string) bool {
			last := len(screen) - 1
			for last >= 0 && screen[last] == "" {
				last--
			}
			return len(screen) == lines && last < lines-1 && starting(screen, state) == 1 &&
				starting(screen, "  pages") == 1 && starting(screen, "  waiting") == 1 &&
				(lines < 16) == (starting(screen, "  host  ") == 0)
		}
	}
	term.shows("the display", display(80, 24))
	for _, size := range [][2]int{{20, 6}, {200, 60}, {20, 60}, {60, 7}, {40, 30}, {200, 6}, {80, 24}} {
		term.tmux("resize-window", "-x", fmt.Sprint(size[0]), "-y", fmt.Sprint(size[1]))
		term.shows(fmt.Sprintf("the display in %d columns and %d lines", size[0], size[1]), display(size[0], size[1]))
	}
	term.tmux("send-keys", "C-c")
	term.shows("the summary", func(screen []string) bool {
		return starting(screen, "done ") == 1 && starting(screen, state) == 0 &&
			starting(screen, "Stopped by a signal with 1 URL to do.") == 1 && starting(screen, "Continue: ") == 1
	})
}
