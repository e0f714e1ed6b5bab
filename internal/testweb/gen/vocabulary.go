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

// vocabularyFile has the words of topics and languages with their counts,
// derived from texts by derive.go.
//
//go:embed vocabulary.txt.gz
var vocabularyFile []byte

const (
	numTopics    = 15
	numLanguages = 20
)

// A vocabulary is the words of a topic or a language, the commonest first.
type vocabulary struct {
	name  string
	words []string
	sums  []uint32 // of the counts, up to and with each word
}

// draw is a word, as often as it occurs in the texts.
func (v *vocabulary) draw(x uint64) string {
	at := uint32(below(x, uint64(v.sums[len(v.sums)-1])))
	return v.words[sort.Search(len(v.sums), func(i int) bool { return v.sums[i] > at })]
}

// vocabularies are those of the topics, in alphabetic order, and of the
// languages, English first.
var vocabularies = sync.OnceValues(func() (topics, languages []*vocabulary) {
	z, err := gzip.NewReader(bytes.NewReader(vocabularyFile))
	if err != nil {
		panic(fmt.Sprintf("vocabulary: %v", err)) // it is a part of this program
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
