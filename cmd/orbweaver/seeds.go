package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/orbweaver/orbweaver/internal/node"
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

// readSeeds reads the seeds from the named file, or from standard input if name is "-".
func readSeeds(name string) ([]string, error) {
	var r io.Reader = os.Stdin
	if name == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return nil, &node.ConfigError{Text: "--seeds: " + err.Error()}
		}
		defer f.Close()
		r = f
	}
	var seeds []string
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for n := 1; sc.Scan(); n++ {
		s := seedLine(sc.Text())
		if s == "" {
			continue
		}
		if _, err := node.ParseSeed(s); err != nil {
			return nil, &node.ConfigError{Text: fmt.Sprintf("%s, line %d: %v", name, n, err)}
		}
		seeds = append(seeds, s)
	}
	if err := sc.Err(); err != nil {
		return nil, &node.ConfigError{Text: fmt.Sprintf("--seeds %s: %v", name, err)}
	}
	return seeds, nil
}
