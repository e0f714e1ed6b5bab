package parse

import "strings"

// tag numbers the elements that matter here.
type tag uint8

const (
	tOther tag = iota
	tA
	tArea
	tAudio
	tBase
	tBody
	tEmbed
	tFeImage
	tFont
	tForeignObject
	tFrame
	tIframe
	tImage
	tImg
	tInput
	tLink
	tMath
	tMeta
	tNoembed
	tNoframes
	tObject
	tP
	tBr
	tPlaintext
	tScript
	tSource
	tStyle
	tSVG
	tTable
	tSection // thead, tbody, tfoot
	tTd
	tTemplate
	tTextarea
	tTh
	tTitle
	tTr
	tTrack
	tUse
	tVideo
	tXmp
	// Elements that matter only for the end of foreign content.
	tBreaking // ends foreign content and has an end tag
	tVoid     // has no end tag
	tVoidBreaking
	nTags
)

// void marks elements that have no content. breakout marks elements that end the foreign content
// around them.
var void, breakout = func() (v, b [nTags]bool) {
	for _, t := range []tag{
		tArea, tBase, tBr, tEmbed, tFrame, tImg, tImage, tInput, tLink, tMeta, tSource, tTrack, tVoid, tVoidBreaking,
		// The scanner skips the text of these together with their end tag.
		tIframe, tNoembed, tNoframes, tPlaintext, tScript, tStyle, tTextarea, tTitle, tXmp,
	} {
		v[t] = true
	}
	for _, t := range []tag{tBody, tBr, tEmbed, tImg, tMeta, tP, tTable, tBreaking, tVoidBreaking} {
		b[t] = true
	}
	return
}()

// tagOf returns the number of a name in any letter case.
func tagOf(n []byte) tag { return tag(tagNames.find(n)) }

var tagNames = newNames([]string{
	tA: "a", tArea: "area", tAudio: "audio", tBase: "base", tBody: "body", tEmbed: "embed", tFeImage: "feimage",
	tFont: "font", tForeignObject: "foreignobject", tFrame: "frame", tIframe: "iframe", tImage: "image", tImg: "img",
	tInput: "input", tLink: "link", tMath: "math", tMeta: "meta", tNoembed: "noembed", tNoframes: "noframes",
	tObject: "object", tP: "p", tBr: "br", tPlaintext: "plaintext", tScript: "script", tSource: "source",
	tStyle: "style", tSVG: "svg", tTable: "table", tSection: "tbody tfoot thead", tTd: "td", tTemplate: "template",
	tTextarea: "textarea", tTh: "th", tTitle: "title", tTr: "tr", tTrack: "track", tUse: "use", tVideo: "video",
	tXmp: "xmp", tVoid: "col wbr param keygen bgsound basefont", tVoidBreaking: "hr",
	tBreaking: "b i s u dd dl dt em h1 h2 h3 h4 h5 h6 li ol tt ul big div pre sub sup var code head menu nobr ruby " +
		"span small center strike strong listing blockquote",
})

// names finds the number of a name in any letter case.
type names struct {
	seed  uint32      // of the hash, so that no two names are in one place
	at    [1024]uint8 // place to index in words
	words []string
	ids   []uint8
}

// newNames returns the names that spaces separate, by their numbers.
func newNames(of []string) *names {
	t := &names{seed: 1, words: []string{""}, ids: []uint8{0}}
	for n, list := range of {
		for _, word := range strings.Fields(list) {
			t.words, t.ids = append(t.words, word), append(t.ids, uint8(n))
		}
	}
	tries := 0
	for i := 1; i < len(t.words); i++ {
		at := &t.at[t.place([]byte(t.words[i]))]
		if *at != 0 { // begin again with another hash
			if tries++; tries > 1<<20 {
				panic("parse: two names have the same length, first, middle and last letter: " + t.words[i])
			}
			t.at, t.seed, i = [1024]uint8{}, t.seed+0x9e3779b2, 0
			continue
		}
		*at = uint8(i)
	}
	return t
}

func (t *names) place(n []byte) uint32 {
	bits := uint32(n[0]) | uint32(n[len(n)/2])<<8 | uint32(n[len(n)-1])<<16 | uint32(len(n))<<24 | 0x202020
	return bits * t.seed >> 22
}

// find returns the number of a name, or 0.
func (t *names) find(n []byte) uint8 {
	if len(n) == 0 {
		return 0
	}
	i := t.at[t.place(n)]
	if !fold(n, t.words[i]) {
		return 0
	}
	return t.ids[i]
}
