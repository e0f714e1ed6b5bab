package lines

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// A strict Reader does not look for the end of a line that is too long: it reads little more than the line may have.
func TestStrict(t *testing.T) {
	in := strings.NewReader("a\n" + strings.Repeat("x", 1<<20))
	r := NewReader(iotest.OneByteReader(in), 16, 100)
	r.Strict = true
	if line, err := r.Next(); string(line) != "a" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := r.Next(); !errors.Is(err, bufio.ErrTooLong) {
		t.Errorf("%v", err)
	}
	if read := 1<<20 + 2 - in.Len(); read > 200 {
		t.Errorf("%d bytes were read", read)
	}
	r = NewReader(strings.NewReader(strings.Repeat("x", 200)+"\nb\n"), 16, 100)
	if _, err := r.Next(); !errors.Is(err, bufio.ErrTooLong) {
		t.Errorf("%v", err)
	}
	if line, err := r.Next(); string(line) != "b" || err != nil {
		t.Errorf("after a long line: %q, %v", line, err)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Error(err)
	}
}
