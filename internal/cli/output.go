package cli

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/orbweaver/orbweaver/internal/report"
)

// An Output is a standard output that escapes control characters in the text written to
// it, because servers and archives choose much of that text. Two functions go around it:
//
//	Terminal  for a display that moves the cursor and escapes its own text
//	Exact     for bytes of an archive or an index
type Output struct {
	*report.CleanWriter
	Raw io.Writer // what Output writes to
}

// NewOutput returns an Output that writes to w. Flush it at the end.
func NewOutput(w io.Writer) *Output { return &Output{report.NewCleanWriter(w), w} }

// Terminal returns the terminal that out writes to, or nil if out writes elsewhere.
func Terminal(out io.Writer) *os.File {
	if o, ok := out.(*Output); ok {
		out = o.Raw
	}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// Exact returns the writer behind out, which changes nothing, for output that programs
// read. If out writes to a terminal, Exact returns out itself.
func Exact(out io.Writer) io.Writer {
	if o, ok := out.(*Output); ok && Terminal(out) == nil {
		return o.Raw
	}
	return out
}

// ErrorOutput is standard error. Kong hands it to commands that ask for it by this type.
type ErrorOutput struct{ io.Writer }
