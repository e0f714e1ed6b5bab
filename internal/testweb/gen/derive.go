//go:build ignore

// Derive writes vocabulary.txt.gz. It contains the most frequent and the most characteristic words of each topic (from
// the train half of odp.jsonl.gz), and the most frequent words of each language (languages.jsonl.gz). It contains only
// words and their counts, no text.
//
//	go run derive.go ../../../shared/data/topics

package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

var languages = strings.Fields("en de fr es it pt nl pl ru sv cs tr fi hu da el uk ro vi ar")

func main() {
	dir := os.Args[1]
	topics, docs, all := map[string]map[string]int{}, map[string]map[string]int{}, map[string]int{}
	total, totals := 0, map[string]int{}
	read(filepath.Join(dir, "odp.jsonl.gz"), func(r row) {
		if r.Split != "train" {
			return
		}
		if topics[r.Category] == nil {
			topics[r.Category], docs[r.Category] = map[string]int{}, map[string]int{}
		}
		once := map[string]bool{}
		for _, w := range words(r.Text) {
			if !ascii(w) {
				continue
			}
			topics[r.Category][w]++
			totals[r.Category]++
			all[w]++
			total++
			once[w] = true
		}
		for w := range once {
			docs[r.Category][w]++
		}
	})
	tongues := map[string]map[string]int{}
	read(filepath.Join(dir, "languages.jsonl.gz"), func(r row) {
		if !slices.Contains(languages, r.Lang) {
			return
		}
		if tongues[r.Lang] == nil {
			tongues[r.Lang] = map[string]int{}
		}
		for _, w := range words(r.Text) {
			tongues[r.Lang][w]++
		}
	})

	f, err := os.Create("vocabulary.txt.gz")
	check(err)
	z, _ := gzip.NewWriterLevel(f, gzip.BestCompression)
	for _, t := range slices.Sorted(maps.Keys(topics)) {
		telling := map[string]float64{}
		for w, n := range topics[t] {
			if docs[t][w] >= 5 && len(w) > 3 {
				p, q := float64(n)/float64(totals[t]), float64(all[w])/float64(total)
				telling[w] = float64(n) * math.Log(p/q)
			}
		}
		keep := map[string]bool{}
		for _, w := range top(telling, 350) {
			keep[w] = true
		}
		common := map[string]float64{}
		for w, n := range topics[t] {
			if docs[t][w] >= 5 {
				common[w] = float64(n)
			}
		}
		for _, w := range top(common, 250) {
			keep[w] = true
		}
		fmt.Fprintf(z, "topic %s\n", strings.ToLower(t))
		write(z, topics[t], keep)
	}
	for _, l := range languages {
		weight := map[string]float64{}
		for w, n := range tongues[l] {
			weight[w] = float64(n)
		}
		keep := map[string]bool{}
		for _, w := range top(weight, 500) {
			keep[w] = true
		}
		fmt.Fprintf(z, "language %s\n", l)
		write(z, tongues[l], keep)
	}
	check(z.Close())
	check(f.Close())
}

// write writes the words of keep with their counts, the most frequent first.
func write(z *gzip.Writer, counts map[string]int, keep map[string]bool) {
	list := slices.SortedFunc(maps.Keys(keep), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	for _, w := range list {
		fmt.Fprintf(z, "%s %d\n", w, counts[w])
	}
}

func top(weight map[string]float64, n int) []string {
	list := slices.SortedFunc(maps.Keys(weight), func(a, b string) int {
		return cmp.Or(cmp.Compare(weight[b], weight[a]), strings.Compare(a, b))
	})
	return list[:min(n, len(list))]
}

func words(text string) []string {
	isBreak := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsMark(r) }
	list := strings.FieldsFunc(strings.ToLower(text), isBreak)
	return slices.DeleteFunc(list, func(w string) bool {
		n := utf8.RuneCountInString(w)
		return n > 14 || len(w) > 24 || n < 2 && w != "a"
	})
}

func ascii(w string) bool {
	return strings.IndexFunc(w, func(r rune) bool { return r < 'a' || r > 'z' }) < 0
}

type row struct{ Category, Split, Lang, Text string }

func read(name string, each func(row)) {
	f, err := os.Open(name)
	check(err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	check(err)
	s := bufio.NewScanner(z)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		var r row
		check(json.Unmarshal(s.Bytes(), &r))
		each(r)
	}
	check(s.Err())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
