package main

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/orbweaver/orbweaver/internal/report"
)

// An output is where all verbs write: it cleans what it writes, as servers and archives
// choose much of the text. Two uses of standard output go around it, by name:
//
//	terminal  a display that moves the cursor itself, and cleans its own text
//	exact     bytes of an archive or an index, to anything but a terminal
type output struct {
	*report.CleanWriter
	raw io.Writer
}

func newOutput(w io.Writer) *output { return &output{report.NewCleanWriter(w), w} }

// terminal returns the terminal that out leads to, nil if it is none.
func terminal(out io.Writer) *os.File {
	if o, ok := out.(*output); ok {
		out = o.raw
	}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// exact returns the writer that changes nothing, for output that programs read. On a
// terminal it is out itself.
func exact(out io.Writer) io.Writer {
	if o, ok := out.(*output); ok && terminal(out) == nil {
		return o.raw
	}
	return out
}

// errorOutput is standard error, for verbs that write to it.
type errorOutput struct{ io.Writer }
