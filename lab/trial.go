package lab

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
)

// A Trial is the environment of a run of an experiment.
type Trial struct {
	Quick bool // finish in less than a minute
	Seed  uint64
	Again string // the command that repeats the measurement, for the text
	// Self is the file of orblab, which serves the webs and runs the parts of experiments
	// that need a process of their own.
	Self string
	// Orbweaver is the file of the crawler. The experiments seen, frontier, ring and quality
	// do not need it.
	Orbweaver string
	// Dir is an empty directory for the files of the runs. The caller deletes it afterwards.
	Dir string
	// Screen receives the progress. Live reports that lines may be overwritten. Width is the
	// width of lines in columns; zero means 80.
	Screen io.Writer
	Live   bool
	Width  int

	show *shown
}

// shown is the state of the screen.
type shown struct {
	mu   sync.Mutex // guards all
	now  string
	at   time.Time
	said time.Time // time of the last partial figure
}

// with returns the trial with another directory.
func (t *Trial) with(dir string) *Trial {
	c := *t
	c.Dir, c.show = dir, new(shown)
	return &c
}

// partialEvery is the interval of partial figures if lines cannot be overwritten.
const partialEvery = 10 * time.Second

// step shows the start of a step. The caller calls done with its result.
func (t *Trial) step(format string, a ...any) (done func(format string, a ...any)) {
	t.show.mu.Lock()
	defer t.show.mu.Unlock()
	t.show.now, t.show.at = fmt.Sprintf(format, a...), time.Now()
	t.show.said = t.show.at
	if t.Live {
		t.draw("")
	}
	return func(format string, a ...any) {
		t.show.mu.Lock()
		defer t.show.mu.Unlock()
		t.line(fmt.Sprintf(format, a...))
		t.show.now = ""
	}
}

// partial shows the progress of the step.
func (t *Trial) partial(format string, a ...any) {
	t.show.mu.Lock()
	defer t.show.mu.Unlock()
	switch {
	case t.Live:
		t.draw(fmt.Sprintf(format, a...))
	case time.Since(t.show.said) >= partialEvery:
		t.show.said = time.Now()
		t.line(fmt.Sprintf(format, a...))
	}
}

// say says something about the step in a line that stays.
func (t *Trial) say(format string, a ...any) {
	t.show.mu.Lock()
	defer t.show.mu.Unlock()
	t.line(fmt.Sprintf(format, a...))
}

// print prints lines between steps.
func (t *Trial) print(format string, a ...any) {
	t.show.mu.Lock()
	defer t.show.mu.Unlock()
	fmt.Fprintf(t.Screen, format+"\n", a...)
}

// alive shows each second that the step runs, until the caller calls stop.
func (t *Trial) alive(text string) (stop func()) {
	return every(time.Second, func() { t.partial("%s", text) })
}

// crawling shows a step while f runs, and then the text that f returns. The error names the step.
func (t *Trial) crawling(step string, f func() (string, error)) error {
	done, stop := t.step("%s", step), t.alive("crawling")
	said, err := f()
	stop()
	if err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	done("%s", said)
	return nil
}

// size sets a field of an experiment that the user has not set: to full, or to short for a quick run.
func size[T any](quick bool, field *T, full, short T) {
	if quick {
		full = short
	}
	if reflect.ValueOf(field).Elem().IsZero() {
		*field = full
	}
}

// line shows a line that is not overwritten.
func (t *Trial) line(text string) {
	begin := ""
	if t.Live {
		begin = "\r\x1b[K"
	}
	fmt.Fprintf(t.Screen, "%s%-36s %5.1f s  %s\n", begin, t.show.now, time.Since(t.show.at).Seconds(), text)
}

func (t *Trial) draw(text string) {
	width := t.Width
	if width <= 0 {
		width = 80
	}
	s := fmt.Sprintf("%-36s %5.1f s  %s", t.show.now, time.Since(t.show.at).Seconds(), text)
	if len(s) >= width {
		s = s[:width-1]
	}
	fmt.Fprintf(t.Screen, "\r\x1b[K%s", s)
}

// count formats a number for people: 12,345, 67.8, 0.91.
func count(f float64) string {
	switch {
	case f >= 100 || f <= -100 || f == float64(int64(f)):
		return humanize.Comma(int64(f + 0.5))
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}

// micros formats a time for people, in microseconds.
func micros(d time.Duration) string {
	return strings.TrimSpace(fmt.Sprintf("%.0f µs", float64(d)/1e3))
}
