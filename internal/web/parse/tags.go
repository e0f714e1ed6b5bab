package parse

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

// tagOf returns the number of a name in lower case.
func tagOf(n []byte) tag {
	switch len(n) {
	case 1:
		switch n[0] {
		case 'a':
			return tA
		case 'p':
			return tP
		case 'b', 'i', 's', 'u':
			return tBreaking
		}
	case 2:
		switch string(n) {
		case "td":
			return tTd
		case "th":
			return tTh
		case "tr":
			return tTr
		case "br":
			return tBr
		case "hr":
			return tVoidBreaking
		case "dd", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6", "li", "ol", "tt", "ul":
			return tBreaking
		}
	case 3:
		switch string(n) {
		case "img":
			return tImg
		case "svg":
			return tSVG
		case "use":
			return tUse
		case "xmp":
			return tXmp
		case "col", "wbr":
			return tVoid
		case "big", "div", "pre", "sub", "sup", "var":
			return tBreaking
		}
	case 4:
		switch string(n) {
		case "area":
			return tArea
		case "base":
			return tBase
		case "body":
			return tBody
		case "font":
			return tFont
		case "link":
			return tLink
		case "math":
			return tMath
		case "meta":
			return tMeta
		case "code", "head", "menu", "nobr", "ruby", "span":
			return tBreaking
		}
	case 5:
		switch string(n) {
		case "audio":
			return tAudio
		case "embed":
			return tEmbed
		case "frame":
			return tFrame
		case "image":
			return tImage
		case "input":
			return tInput
		case "style":
			return tStyle
		case "table":
			return tTable
		case "tbody", "tfoot", "thead":
			return tSection
		case "title":
			return tTitle
		case "track":
			return tTrack
		case "video":
			return tVideo
		case "small":
			return tBreaking
		case "param":
			return tVoid
		}
	case 6:
		switch string(n) {
		case "iframe":
			return tIframe
		case "object":
			return tObject
		case "script":
			return tScript
		case "source":
			return tSource
		case "center", "strike", "strong":
			return tBreaking
		case "keygen":
			return tVoid
		}
	case 7:
		switch string(n) {
		case "feimage":
			return tFeImage
		case "noembed":
			return tNoembed
		case "listing":
			return tBreaking
		case "bgsound":
			return tVoid
		}
	case 8:
		switch string(n) {
		case "noframes":
			return tNoframes
		case "template":
			return tTemplate
		case "textarea":
			return tTextarea
		case "basefont":
			return tVoid
		}
	case 9:
		if string(n) == "plaintext" {
			return tPlaintext
		}
	case 10:
		switch string(n) {
		case "blockquote":
			return tBreaking
		}
	case 13:
		if string(n) == "foreignobject" {
			return tForeignObject
		}
	}
	return tOther
}
