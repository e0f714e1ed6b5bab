package gen

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
)

//go:generate go run derive.go ../../../../shared/data/topics

// vocabularyFile has the words of topics and languages with their counts. derive.go makes it.
//
//go:embed vocabulary.txt.gz
var vocabularyFile []byte

const (
	numTopics    = 15
	numLanguages = 20
)

// A vocabulary has the words of a topic or a language, the most frequent first.
type vocabulary struct {
	name  string
	words []string
	sums  []uint32 // cumulative counts of the words
}

// draw chooses a word, with the probability that it has in the texts.
func (v *vocabulary) draw(x uint64) string {
	at := uint32(below(x, uint64(v.sums[len(v.sums)-1])))
	return v.words[sort.Search(len(v.sums), func(i int) bool { return v.sums[i] > at })]
}

// vocabularies returns the topics' vocabularies in alphabetic order, and the languages' with English first.
var vocabularies = sync.OnceValues(func() (topics, languages []*vocabulary) {
	z, err := gzip.NewReader(bytes.NewReader(vocabularyFile))
	if err != nil {
		panic(fmt.Sprintf("vocabulary: %v", err)) // it is embedded, so this cannot happen
	}
	var v *vocabulary
	for s := bufio.NewScanner(z); s.Scan(); {
		word, count, _ := strings.Cut(s.Text(), " ")
		n, err := strconv.ParseUint(count, 10, 32)
		if err == nil {
			last := uint32(0)
			if len(v.sums) > 0 {
				last = v.sums[len(v.sums)-1]
			}
			v.words, v.sums = append(v.words, word), append(v.sums, last+uint32(n))
			continue
		}
		v = &vocabulary{name: count}
		if word == "topic" {
			topics = append(topics, v)
		} else {
			languages = append(languages, v)
		}
	}
	return topics, languages
})
