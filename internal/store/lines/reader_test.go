package lines

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// TestReader reads lines around the sizes of the buffer (16 bytes) and of the limit.
func TestReader(t *testing.T) {
	for _, most := range []int{0, 20, 40} {
		for size := range 50 {
			r := NewReader(strings.NewReader("a\n"+strings.Repeat("x", size)+"\n\nb\nend"), 16, most)
			var got []string
			at := 0
			for {
				line, err := r.Next()
				at += r.Size()
				if errors.Is(err, bufio.ErrTooLong) {
					line = []byte("too long")
				} else if err != nil {
					got = append(got, err.Error())
					break
				}
				got = append(got, string(line))
			}
			long := strings.Repeat("x", size)
			if size+1 > max(16, most) {
				long = "too long"
			}
			want := []string{"a", long, "", "b", io.ErrUnexpectedEOF.Error()}
			if !slices.Equal(got, want) || at != size+9 {
				t.Errorf("at most %d, %d bytes: got %q and %d bytes, want %q", most, size, got, at, want)
			}
		}
	}
	r := NewReader(strings.NewReader("a\n"), 16, 0)
	for _, want := range []error{nil, io.EOF, io.EOF} {
		if _, err := r.Next(); err != want {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	fault := fmt.Errorf("fault")
	r = NewReader(io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(fault)), 16, 0)
	if _, err := r.Next(); err != fault {
		t.Errorf("got %v", err)
	}
}
