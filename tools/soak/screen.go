package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// A screen shows lines that stay, and below them the progress. On a terminal the progress changes in
// its place; otherwise it is a line a minute.
type screen struct {
	out   io.Writer
	live  bool
	lines []string // the progress that is on the screen
	shown time.Time
}

// quiet is the time between two lines of progress if there is no terminal.
const quiet = time.Minute

func newScreen(out io.Writer) *screen {
	s := &screen{out: out, shown: time.Now()}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		s.live = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return s
}

// say writes lines that stay.
func (s *screen) say(format string, a ...any) {
	lines := s.lines
	s.clear()
	fmt.Fprintf(s.out, format+"\n", a...)
	if lines != nil {
		s.draw(lines)
	}
}

// show shows the progress.
func (s *screen) show(lines []string) {
	if s.live {
		if !slices.Equal(lines, s.lines) {
			s.clear()
			s.draw(lines)
		}
		return
	}
	if time.Since(s.shown) >= quiet {
		s.shown = time.Now()
		for i, line := range lines {
			lines[i] = strings.Join(strings.Fields(line), " ")
		}
		fmt.Fprintln(s.out, clock()+": "+strings.Join(lines, "; "))
	}
}

// close leaves the progress where it is.
func (s *screen) close() { s.lines = nil }

// width is what a line may have, so that it does not wrap.
const width = 79

func (s *screen) draw(lines []string) {
	for _, line := range lines {
		if r := []rune(line); len(r) > width {
			line = string(r[:width-3]) + "..."
		}
		fmt.Fprintln(s.out, line)
	}
	s.lines = lines
}

func (s *screen) clear() {
	if len(s.lines) > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", len(s.lines))
	}
	s.lines = nil
}
