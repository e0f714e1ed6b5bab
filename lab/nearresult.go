package lab

import (
	"fmt"

	"github.com/dustin/go-humanize"
)

// result returns the text, tables and figures.
func (x *Near) result(r *nearRun) *Result {
	res := &Result{
		Name: "near", Title: "Which detector finds near-duplicates?",
		Question: "Mirrors and versions of a page differ in a few words. Which fingerprint finds them: an odd sketch " +
			"(Mitzenmacher, Pagh and Pham, 2014), MinHash (Broder, 1997) or SimHash (Charikar, 2002; Manku, Jain and " +
			"Das Sarma, 2007)?",
		SetUp: fmt.Sprintf("Truth is the exact Jaccard coefficient of the sets of shingles of five words, by code "+
			"that the detectors do not share. *Versions*: all pairs of the %s pages of Debian's llvm-13-doc to "+
			"llvm-16-doc (%s more are too short for a fingerprint). *Mirrors*: copies of pages in webs of `testweb`, "+
			"with a known share of other words (`--edits`). *Odd sketch* is package `near`: 1,024 bits for the "+
			"estimate; *by bands* also demands that two pages share one of its 16 keys, which are hashes of 192 "+
			"values of a MinHash. *MinHash* has 256 hashes of 4 bits, as many bits as the odd sketch. *SimHash* has "+
			"64 bits, and pages are alike up to a distance in bits.", humanize.Comma(int64(r.pages)),
			humanize.Comma(int64(r.short))),
		Data: Table{Columns: []Column{{Name: "truth"}, {Name: "level"}, {Name: "detector"}, {Name: "what"},
			{Name: "right"}, {Name: "of"}, {Name: "value"}}},
		Figure: &Figure{Alt: "Recall and precision of odd sketches, MinHash and SimHash for pairs of versions."},
		Figures: map[string]any{"scores": r.scores, "rates": r.rates, "near_pages_per_s": r.nearSpeed,
			"simhash_pages_per_s": r.simSpeed, "index_pages_per_s": r.indexSpeed, "index_file_bytes": r.indexFile,
			"index_key_bytes": r.indexKeys, "index_memory_bytes": r.indexMemory, "pages": r.pages,
			"stored": r.stored, "marked": r.marked},
	}
	r.quality(res)
	r.byRate(res)
	r.costs(res)
	return res
}

// quality shows precision and recall.
func (r *nearRun) quality(res *Result) {
	table := &Table{Columns: []Column{{Name: "truth"}, {Name: "level", Digits: 1}, {Name: "detector"},
		{Name: "pairs"}, {Name: "recall", Unit: "%", Digits: 1}, {Name: "at least", Digits: 1},
		{Name: "found"}, {Name: "precision", Unit: "%", Digits: 1}, {Name: "at least ", Digits: 1}}}
	bars := map[string]*Bars{}
	var names []string
	for _, s := range r.scores {
		recall, _ := s.Recall.Interval()
		precision, _ := s.Precision.Interval()
		table.Add(s.Truth, s.Level, s.Detector, s.Recall.Of, percent*s.Recall.Accuracy(), percent*recall,
			s.Precision.Of, percent*s.Precision.Accuracy(), percent*precision)
		res.Data.Add(s.Truth, s.Level, s.Detector, "recall", s.Recall.Right, s.Recall.Of, s.Recall.Accuracy())
		res.Data.Add(s.Truth, s.Level, s.Detector, "precision", s.Precision.Right, s.Precision.Of,
			s.Precision.Accuracy())
		if s.Truth == "versions" {
			if bars[s.Detector] == nil {
				bars[s.Detector] = &Bars{Name: s.Detector}
				names = append(names, s.Detector)
			}
			b := bars[s.Detector]
			b.Values = append(b.Values, percent*s.Recall.Accuracy(), percent*s.Precision.Accuracy())
		}
	}
	panel := Panel{Title: "Pairs of versions", Y: "%",
		Groups: []string{"recall, 0.8", "precision, 0.8", "recall, 0.9", "precision, 0.9"}}
	for _, n := range names {
		panel.Bars = append(panel.Bars, *bars[n])
	}
	res.Figure.Panels = append(res.Figure.Panels, panel)
	res.Sections = append(res.Sections, Section{Heading: "Precision and recall", Table: table, Shown: true,
		Text: "*At least* is the lower bound of the share with 95 % confidence (Wilson), as if the pairs were " +
			"independent; pairs of the same pages are not quite. *Precision* of mirrors is of mirrors alone: there " +
			"are no pairs of unrelated pages among them."})
}

// byRate shows the mirrors.
func (r *nearRun) byRate(res *Result) {
	table := &Table{Columns: []Column{{Name: "edits", Unit: "%", Digits: 1}, {Name: "mirrors"},
		{Name: "mean Jaccard", Digits: 3}, {Name: "odd sketch at 0.9", Unit: "%", Digits: 1},
		{Name: "SimHash, 3 bits", Unit: "%", Digits: 1}}}
	for _, n := range r.rates {
		table.Add(percent*n.Rate, n.Near.Of, n.Jaccard, percent*n.Near.Accuracy(), percent*n.Sim.Accuracy())
		what := fmt.Sprintf("%g edits", n.Rate)
		res.Data.Add("mirrors", nil, "odd sketch", what, n.Near.Right, n.Near.Of, n.Near.Accuracy())
		res.Data.Add("mirrors", nil, "simhash", what, n.Sim.Right, n.Sim.Of, n.Sim.Accuracy())
	}
	res.Sections = append(res.Sections, Section{Heading: "Mirrors by the rate of edits", Table: table, Shown: true,
		Text: "The share of the mirrors that each detector calls near-duplicates. An edit changes up to five " +
			"shingles."})
}

// costs shows speed and size.
func (r *nearRun) costs(res *Result) {
	table := &Table{Columns: []Column{{Name: "what"}, {Name: "value", Digits: 0}}}
	table.Add("package near, pages/s of one core", r.nearSpeed)
	table.Add("SimHash (not tuned), pages/s of one core", r.simSpeed)
	table.Add("look-ups in the index, pages/s of one core", r.indexSpeed)
	table.Add("entry on disk, bytes a page", r.indexFile)
	table.Add("keys on disk, bytes a page", r.indexKeys)
	table.Add("memory of the keys, bytes a page", r.indexMemory)
	table.Add("pages of the versions stored", r.stored)
	table.Add("pages of the versions found to be near-duplicates", r.marked)
	res.Sections = append(res.Sections, Section{Heading: "Cost", Table: table, Shown: true,
		Text: "The index is the one of the crawl, with 16 MiB of memory, one page after the other. Its speed and " +
			"bytes are those of unlike pages that follow the versions (500,000; with --quick 20,000). Speeds are by " +
			"the processor time of this process. SimHash needs 4 to 20 tables of 8 bytes a page for " +
			"3 bits, and many more for 7."})
}
