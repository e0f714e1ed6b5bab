package graph

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/extsort"
)

// AppendRank appends a line of a file of ranks: the rank, a tab, the name of the node.
func AppendRank(dst []byte, rank float64, name []byte) []byte {
	dst = append(strconv.AppendFloat(dst, rank, 'g', -1, 64), '\t')
	return append(append(dst, name...), '\n')
}

// readRanks calls fn for each line of a file of ranks. An error of the text is a FormatError that begins with the line.
func readRanks(r io.Reader, digits int, fn func(rank float64, name []byte) error) error {
	return lines(r, func(n int, line []byte) error {
		number, name, ok := bytes.Cut(line, []byte{'\t'})
		if !ok || len(name) == 0 || bytes.IndexByte(name, 0) >= 0 {
			return damaged("line %d: %.60q; give a rank, a tab and the name of a node", n, line)
		}
		rank, err := strconv.ParseFloat(string(number), 64)
		if err != nil || math.IsNaN(rank) || strings.ContainsAny(string(number), "xX_") {
			return damaged("line %d: the rank %.30q; give a number, such as 0.25 or 1e-7", n, number)
		}
		return fn(round(rank, digits), name)
	})
}

// A Joiner joins two files of ranks by the names of the nodes.
type Joiner struct {
	// Digits rounds the ranks to so many significant digits, if it is not zero.
	Digits int
	// Most bounds the nodes that are in both files, if it is not zero. See KendallBytes.
	Most int

	queue *extsort.Queue
	stop  extsort.Stop
	rec   []byte
}

// ErrMemory means that more nodes are in both files than Joiner.Most.
var ErrMemory = errors.New("too many nodes are in both files")

// NewJoiner returns an empty Joiner. The caller closes it.
func NewJoiner(s extsort.Config) *Joiner { return &Joiner{queue: s.Queue("ranks"), stop: s.Stop} }

// Close deletes the temporary files.
func (j *Joiner) Close() error { return j.queue.Close() }

// Read reads a file of ranks: the first one if list is 0, the second if it is 1.
func (j *Joiner) Read(list byte, r io.Reader) (nodes int64, err error) {
	err = readRanks(r, j.Digits, func(rank float64, name []byte) error {
		if nodes++; j.stop != nil && nodes%4096 == 0 {
			if err := j.stop.Err(); err != nil {
				return err
			}
		}
		j.rec = append(append(j.rec[:0], name...), 0, list)
		j.rec = binary.BigEndian.AppendUint64(j.rec, math.Float64bits(rank))
		return j.queue.Push(j.rec)
	})
	return nodes, err
}

// Pairs returns the ranks of the nodes that are in both files. A node that a file has twice is a FormatError. If the
// nodes are more than Most, the error is ErrMemory.
func (j *Joiner) Pairs() (pairs []Pair, err error) {
	var key []byte // name and list of the last record
	var first float64
	err = j.queue.Each(func(r []byte) error {
		if len(r) < 11 {
			return extsort.ErrDamaged
		}
		at := len(r) - 8
		rank := math.Float64frombits(binary.BigEndian.Uint64(r[at:]))
		if bytes.Equal(r[:at], key) {
			return damaged("the node %.200q is there twice in the %s file; give each node one rank", r[:at-2],
				[]string{"first", "second"}[r[at-1]&1])
		}
		if r[at-1] == 1 && len(key) == at && bytes.Equal(r[:at-1], key[:at-1]) {
			if j.Most > 0 && len(pairs) >= j.Most {
				return ErrMemory
			}
			pairs = append(pairs, Pair{first, rank})
		}
		key = append(key[:0], r[:at]...)
		first = rank
		return nil
	})
	return pairs, err
}
