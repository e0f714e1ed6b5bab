package main

import (
	"bufio"
	"strconv"

	"github.com/orbweaver/orbweaver/internal/graph"
)

// exportGraph writes the text files of a graph. A file without a name is not written.
func exportGraph(g *graph.File, vertices, edges string, progress *steps) error {
	var line []byte
	if vertices != "" {
		err := writeText("--vertices", vertices, func(w *bufio.Writer) error {
			return g.Names(func(node uint32, name []byte) error {
				if node%4096 == 0 {
					progress.say("has written %s", plural(int64(node), "node"))
				}
				line = append(strconv.AppendUint(line[:0], uint64(node), 10), '\t')
				_, err := w.Write(append(append(line, name...), '\n'))
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	if edges == "" {
		return nil
	}
	return writeText("--edges", edges, func(w *bufio.Writer) error {
		return g.Links(func(node uint32, to []uint32) error {
			progress.say("has written the links of %s", plural(int64(node), "node"))
			for _, v := range to {
				line = append(strconv.AppendUint(line[:0], uint64(node), 10), '\t')
				line = append(strconv.AppendUint(line, uint64(v), 10), '\n')
				if _, err := w.Write(line); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// graphNames returns the names of some nodes. Without names they are the numbers.
func graphNames(g *graph.File, nodes []uint32) (map[uint32]string, error) {
	names := map[uint32]string{}
	for _, n := range nodes {
		names[n] = strconv.FormatUint(uint64(n), 10)
	}
	err := g.Names(func(node uint32, name []byte) error {
		if _, ok := names[node]; ok {
			names[node] = string(name)
		}
		return nil
	})
	return names, err
}
