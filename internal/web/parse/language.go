package parse

import "github.com/orbweaver/orbweaver/internal/web/message"

// maxPrologue is how many bytes of a document are searched for the html element.
const maxPrologue = 4 << 10

// languageOf returns the language that the html element of a document names. It finds none in UTF-16.
func languageOf(body []byte, xml bool) string {
	s := scanner{b: body[:min(len(body), maxPrologue)], xml: xml}
	if !s.next() || string(s.name()) != "html" {
		return ""
	}
	v, _ := s.attr(aLang)
	return message.Language(v)
}
