package classify

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
)

// A model file has, in this order and in little-endian:
//
//	fileMagic and a line break
//	a line of JSON: fileHead
//	the hashes of the terms, 8 bytes each, ascending
//	the idf of each term, 4 bytes each (IEEE 754), for Rocchio and Logistic only
//	the bias of each category, 8 bytes each
//	the scale of each term, 4 bytes each
//	the weights, a signed byte each, in units of the term's scale: for each term those of all categories
//	the SHA-256 of all bytes before it, 32 bytes: the model's digest
const fileMagic = "orbweaver-model 1"

// fileHead is the second line of a model file.
type fileHead struct {
	Kind       string   `json:"kind"`
	Features   string   `json:"features"`
	Language   string   `json:"language,omitempty"`
	Categories []string `json:"categories"`
	Terms      int      `json:"terms"`
	About      string   `json:"about,omitempty"` // what the model was trained on
}

// Limits of a model file.
const (
	maxCategories = 256
	maxTerms      = 1 << 22
)

// ErrModel reports a file that is not a model of this version, or is damaged.
var ErrModel = errors.New("not a model")

// Write writes the model to w. about says what it was trained on, and may be empty.
func (m *Model) Write(w io.Writer, about string) error {
	head, err := json.Marshal(fileHead{m.kind, m.features, m.language, m.categories, m.Vocabulary(), about})
	if err != nil {
		return err
	}
	sum := sha256.New()
	b := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	b.WriteString(fileMagic + "\n" + string(head) + "\n") // b keeps the first error until Flush
	for _, part := range []any{m.vocabulary.hashes, m.idf, m.bias, m.scales, m.weights} {
		if err := binary.Write(b, binary.LittleEndian, part); err != nil {
			return err
		}
	}
	if err := b.Flush(); err != nil {
		return err
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

// Parse reads a model file. digest is its SHA-256, in hexadecimal digits: agents with the same digest give each text
// the same category. The error is ErrModel.
func Parse(file []byte) (m *Model, digest string, err error) {
	bad := func(format string, args ...any) (*Model, string, error) {
		return nil, "", fmt.Errorf("%w: %s", ErrModel, fmt.Sprintf(format, args...))
	}
	rest, ok := bytes.CutPrefix(file, []byte(fileMagic+"\n"))
	if !ok {
		return bad("it does not begin with %q", fileMagic)
	}
	end := len(file) - sha256.Size
	if sum := sha256.Sum256(file[:max(0, end)]); end < 0 || !bytes.Equal(sum[:], file[end:]) {
		return bad("its checksum is wrong; the file is damaged or cut off")
	}
	line, rest, _ := bytes.Cut(rest[:max(0, len(rest)-sha256.Size)], []byte("\n"))
	var head fileHead
	if err := json.Unmarshal(line, &head); err != nil {
		return bad("its second line: %v", err)
	}
	k := head.Categories
	switch {
	case !slices.Contains(Kinds(), head.Kind):
		return bad("the unknown kind %q", head.Kind)
	case !slices.Contains(AllFeatures(), head.Features):
		return bad("the unknown features %q", head.Features)
	case len(k) < 2 || len(k) > maxCategories || !slices.IsSorted(k) || len(slices.Compact(slices.Clone(k))) < len(k) ||
		slices.Contains(k, "") || slices.Contains(k, Unclassifiable):
		return bad("the categories %q; they must be 2 to %d, sorted and different", k, maxCategories)
	case strings.ContainsFunc(strings.Join(k, ""), unicode.IsControl): // the archive has them in lines
		return bad("the categories %q; a control character is in a name", k)
	case head.Terms < 0 || head.Terms > maxTerms:
		return bad("%d terms; the limit is %d", head.Terms, maxTerms)
	}
	m = &Model{kind: head.Kind, features: head.Features, language: head.Language, categories: k}
	term := 8 + 4 + len(k) // bytes of a term: hash, scale and weights
	idf := m.kind == Rocchio || m.kind == Logistic
	if idf {
		term += 4
	}
	if size := head.Terms*term + 8*len(k); len(rest) != size { // before anything of that size is allocated
		return bad("%d bytes of numbers, not %d", len(rest), size)
	}
	hashes := make([]uint64, head.Terms)
	m.bias, m.scales, m.weights = make([]float64, len(k)), make([]float32, head.Terms), make([]int8, head.Terms*len(k))
	if idf {
		m.idf = make([]float32, head.Terms)
	}
	for _, part := range []any{hashes, m.idf, m.bias, m.scales, m.weights} {
		n, _ := binary.Decode(rest, binary.LittleEndian, part) // rest is long enough
		rest = rest[n:]
	}
	for i := 1; i < len(hashes); i++ {
		if hashes[i] <= hashes[i-1] {
			return bad("its terms are not in order")
		}
	}
	if !finite(m.idf) || !finite(m.bias) || !finite(m.scales) {
		return bad("a weight is not a number")
	}
	m.vocabulary = newVocabulary(hashes)
	m.digest = hex.EncodeToString(file[end:])
	return m, m.digest, nil
}

func finite[T float32 | float64](all []T) bool {
	for _, v := range all {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return false
		}
	}
	return true
}
