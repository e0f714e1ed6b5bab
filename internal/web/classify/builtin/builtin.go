// Package builtin answers: which models does the program have without a file?
//
// Two models are in the binary. Languages tells the language of a text, and Topics the topic of one in English. Their
// texts have licences that allow this, and docs/reference/model.md names them. The package's test makes the same files
// again.
package builtin

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"sync"

	"github.com/orbweaver/orbweaver/internal/web/classify"
)

//go:embed languages.model.gz
var languages []byte

//go:embed topics.model.gz
var topics []byte

// Languages returns the model of languages: its categories are codes of ISO 639-1.
var Languages = sync.OnceValue(func() *classify.Model { return unpack(languages) })

// Topics returns the model of topics: its categories are those of the Open Directory for which there are free texts.
var Topics = sync.OnceValue(func() *classify.Model { return unpack(topics) })

// unpack reads a file that is part of the program, so an error is a bug.
func unpack(file []byte) *classify.Model {
	var b bytes.Buffer
	z, err := gzip.NewReader(bytes.NewReader(file))
	if err == nil {
		_, err = io.Copy(&b, z)
	}
	if err == nil {
		var m *classify.Model
		if m, _, err = classify.Parse(b.Bytes()); err == nil {
			return m
		}
	}
	panic(err)
}
