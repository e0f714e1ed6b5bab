package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node/readout"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
)

// ShowFlags are the flags of a command that only shows something. Each such command has them.
type ShowFlags struct {
	JSON  bool `name:"json" help:"${ctl_json}"`
	Watch bool `short:"w" help:"${ctl_watch}"`
}

// A content is what a command shows: a message for programs, or a text for people.
type content struct {
	message proto.Message
	text    string
	err     error // agents that have not answered; the rest is shown all the same
}

// watchEvery is the time between two looks of --watch. A look at the queue copies it. Only tests change them.
var watchEvery, watchQueueEvery = 2 * time.Second, 10 * time.Second

// show prints what look returns, with --watch again and again.
func (s ShowFlags) show(c *commands, out io.Writer, errs cli.ErrorOutput, every time.Duration,
	look func(ctx context.Context, o operator) (content, error)) error {
	return c.Ctl.call(func(ctx context.Context, o operator) error {
		if !s.Watch {
			v, err := look(ctx, o)
			if err != nil {
				return err
			}
			if s.JSON {
				if v.text, err = asJSON(v.message); err != nil {
					return err
				}
			}
			if _, err = io.WriteString(out, v.text); err != nil {
				return err
			}
			return v.err
		}
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		ended, err := watch(ctx, every, func(ctx context.Context) (string, error) {
			v, err := look(ctx, o)
			switch {
			case err != nil:
				return "", err
			case s.JSON:
				return asLine(v.message)
			case v.err != nil:
				v.text += v.err.Error() + "\n"
			}
			return v.text, nil
		}, screenOf(out, s.JSON), c.Ctl.ended)
		if ended {
			fmt.Fprintf(errs, "orbweaver: the crawl in %s has ended\n", c.Ctl.Dir)
		}
		return err
	})
}

// watch shows what look returns again and again until ctx is done. It also ends if look fails after the crawl has
// ended; over says whether it has.
func watch(ctx context.Context, every time.Duration, look func(context.Context) (string, error),
	show func(string) error, over func() bool) (ended bool, err error) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for first := true; ; first = false {
		text, err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return false, nil
		case err != nil:
			if !first && over() {
				return true, nil
			}
			return false, err
		}
		if err := show(text); err != nil {
			return false, err
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return false, nil
		}
	}
}

// ended reports whether a crawl that has answered before ends or has ended: it removes its api.json first.
func (c *CtlCmd) ended() bool {
	if _, err := os.Stat(filepath.Join(c.Dir, crawldir.APIFile)); errors.Is(err, fs.ErrNotExist) {
		return true
	}
	pid, err := crawldir.CrawledBy(c.Dir)
	return err == nil && pid == 0
}

// screenOf returns a function that shows a text: on a terminal in the place of the text before, elsewhere below it.
// JSON gets no empty lines in between.
func screenOf(out io.Writer, json bool) func(text string) error {
	if f := cli.Terminal(out); f != nil {
		return func(text string) error {
			cols, lines, err := term.GetSize(int(f.Fd()))
			if err != nil {
				cols, lines = 80, 24
			}
			_, err = f.WriteString(redraw(text, cols, lines))
			return err
		}
	}
	above := ""
	return func(text string) error {
		_, err := io.WriteString(out, above+text)
		if !json {
			above = "\n"
		}
		return err
	}
}

// redraw returns what draws text on a terminal of a size, from its upper left corner. Lines and columns that do not fit
// are left out.
func redraw(text string, cols, lines int) string {
	rows := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if lines = max(lines-1, 1); len(rows) > lines {
		rows = append(rows[:lines-1:lines-1], "…")
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	for _, row := range rows {
		b.WriteString(runewidth.Truncate(report.OneLine(row), max(cols-1, 1), "…") + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	return b.String()
}

// asJSON returns a message as an indented JSON object.
func asJSON(m proto.Message) (string, error) {
	b, err := readout.JSON(m, true)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	err = json.Indent(&text, b, "", "  ")
	return text.String() + "\n", err
}

// shortLine returns a message as a JSON object on one line, without fields that have their default values.
func shortLine(m proto.Message) (string, error) {
	b, err := readout.JSON(m, false)
	return string(b) + "\n", err
}

// asLine returns a message as a JSON object on one line.
func asLine(m proto.Message) (string, error) {
	b, err := readout.JSON(m, true)
	return string(b) + "\n", err
}

// writeMessage prints a message as one JSON object.
func writeMessage(out io.Writer, m proto.Message) error {
	text, err := asJSON(m)
	if err == nil {
		_, err = io.WriteString(out, text)
	}
	return err
}
