package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/orbweaver/orbweaver/internal/input"
)

// seedLine returns a line of a seed file without surrounding white space and without its
// comment. A comment begins with '#' at the start of the line or after white space.
func seedLine(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] == '#' && (i == 0 || s[i-1] == ' ' || s[i-1] == '\t') {
			s = s[:i]
		}
	}
	return strings.TrimSpace(s)
}

// maxSeedLine bounds a line of a seed file in bytes.
const maxSeedLine = 1 << 20

// readAllSeeds reads the seeds from the named files, as readSeeds does.
func readAllSeeds(names []string) (seeds []string, _ error) {
	for _, name := range names {
		more, err := readSeeds(name)
		if err != nil {
			return nil, err
		}
		seeds = append(seeds, more...)
	}
	return seeds, nil
}

// readSeeds reads the seeds from the named file, or from standard input if name is "-".
func readSeeds(name string) (seeds []string, _ error) {
	err := eachSeed("--seeds", name, func(from string, n int, s string) error {
		if _, err := input.ParseURL("seed", s); err != nil {
			return bad("--seeds %s, line %d: %v", from, n, err)
		}
		seeds = append(seeds, s)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return seeds, nil
}

// eachSeed passes the seeds of the named file, or of standard input if name is "-", to fn, with the number of their
// line. The flag names the file.
func eachSeed(flag, name string, fn func(from string, n int, seed string) error) error {
	r, from := io.Reader(os.Stdin), "standard input"
	if name != "-" {
		from = name
		f, err := os.Open(name)
		if err != nil {
			return unreadable(flag+" "+name, name, err, "name a file with one URL on each line")
		}
		defer f.Close()
		r = f
	}
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxSeedLine)
	n := 1
	for ; sc.Scan(); n++ {
		line := strings.TrimPrefix(sc.Text(), "\ufeff") // a byte order mark begins files of some editors
		if n == 1 && (strings.HasPrefix(line, "\xff\xfe") || strings.HasPrefix(line, "\xfe\xff")) {
			return bad("%s %s: the file is UTF-16; save it as UTF-8", flag, from)
		}
		s := seedLine(line)
		if s == "" {
			continue
		}
		if err := fn(from, n, s); err != nil {
			return err
		}
	}
	switch err := sc.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return bad("%s %s, line %d: longer than %d bytes; put one URL on each line", flag, from, n, maxSeedLine)
	case err != nil:
		return unreadable(flag+" "+from, name, err, "name a file with one URL on each line")
	}
	return nil
}
