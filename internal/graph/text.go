package graph

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
)

// maxTextLine bounds a line of a text file in bytes.
const maxTextLine = 1 << 20

// ReadEdges calls fn for each line of a file of edges, as Common Crawl publishes them: two node numbers with a tab
// between them. Spaces do as well. An error of the text is a FormatError that begins with the line.
func ReadEdges(r io.Reader, fn func(from, to uint32) error) error {
	return lines(r, func(n int, line []byte) error {
		cells := bytes.Fields(line)
		if len(cells) != 2 {
			return damaged("line %d: %.60q; give two node numbers with a tab between them", n, line)
		}
		var ends [2]uint32
		for i, cell := range cells {
			v, err := strconv.ParseUint(string(cell), 10, 32)
			if err != nil || v >= MaxNodes {
				return damaged("line %d: the node %.30q; give a number from 0 to %d", n, cell, uint64(MaxNodes-1))
			}
			ends[i] = uint32(v)
		}
		return fn(ends[0], ends[1])
	})
}

// ReadVertices calls fn for the name of each node of a file of vertices, as Common Crawl publishes them: the number of
// the node, a tab, its name. The numbers must be 0, 1, 2 and so on. Further columns are ignored. An error of the text
// is a FormatError that begins with the line.
func ReadVertices(r io.Reader, fn func(name []byte) error) error {
	return lines(r, func(n int, line []byte) error {
		number, name, ok := bytes.Cut(line, []byte{'\t'})
		name, _, _ = bytes.Cut(name, []byte{'\t'})
		if !ok || len(name) == 0 {
			return damaged("line %d: %.60q; give the number of a node, a tab and its name", n, line)
		}
		if bytes.IndexByte(name, 0) >= 0 {
			return damaged("line %d: the name %.60q has a zero byte; give a name without it", n, name)
		}
		if string(number) != strconv.Itoa(n-1) {
			return damaged("line %d: the node %.30q; the nodes must be in order: give %d", n, number, n-1)
		}
		return fn(name)
	})
}

// lines calls fn for each line, with its number from 1.
func lines(r io.Reader, fn func(n int, line []byte) error) error {
	in := &failing{r: r}
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 64<<10), maxTextLine)
	n := 0
	for s.Scan() {
		if in.err != nil { // the line may be the part that came before the error
			return in.err
		}
		n++
		if err := fn(n, bytes.TrimSuffix(s.Bytes(), []byte{'\r'})); err != nil {
			return err
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return damaged("line %d: longer than %d bytes; give one node or link a line", n+1, maxTextLine)
	}
	return s.Err()
}

// A failing keeps the error of a reader, because a bufio.Scanner first returns what came before it as a line.
type failing struct {
	r   io.Reader
	err error
}

func (f *failing) Read(b []byte) (int, error) {
	n, err := f.r.Read(b)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}
