package sim

import (
	"bytes"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// learn trains the model of a story whose plan has Topics, on pages of its web. Its categories are the topics of the
// hosts. The model in the program knows no topic of a generated web.
func (s *story) learn() error {
	if s.plan.Topics == 0 {
		return nil
	}
	var texts []classify.Text
	var answer []byte
	var p parse.Page
	for host := range s.made.Hosts() {
		for page := range min(s.made.Pages(host), 5) {
			q := testweb.Query{Host: host, Target: s.made.Target(host, page)}
			answer, _ = s.made.Answer(answer[:0], q)
			_, body, ok := bytes.Cut(answer, []byte("\r\n\r\n"))
			if !ok || !bytes.HasPrefix(answer, []byte("HTTP/1.1 200")) {
				continue // a fault of the web
			}
			parse.Parse(parse.Input{URL: weburl.MustParse(s.made.URL(host, page)), Body: body,
				ContentType: "text/html; charset=utf-8"}, parse.Options{}, &p)
			texts = append(texts, classify.Text{Category: categoryOf(s.made.Topic(host)),
				Text: string(p.AppendProse([]byte(q.Target+"\n"), body))})
		}
	}
	m, err := classify.Train(texts, classify.Training{Kind: classify.Bayes})
	if err != nil {
		return fmt.Errorf("the model of the web: %w", err)
	}
	s.model, err = classify.New(m, nil)
	return err
}

// categoryOf names a topic of a generated web.
func categoryOf(topic int) string { return fmt.Sprintf("TOPIC-%02d", topic) }

// openFocused opens the strategy of a story whose plan is Focused.
func (s *story) openFocused(at strategy.Place) (visit.Strategy, error) {
	return strategy.OpenFocused(strategy.FocusedConfig{Classifier: s.model, Pages: at.Pages})
}

// revisitAfter is how long after a visit to a page the next one is due, in a story whose plan has Rounds.
const revisitAfter = time.Minute

// openRecrawl opens the strategy of a story whose plan has Rounds.
func (s *story) openRecrawl(at strategy.Place) (visit.Strategy, error) {
	return strategy.OpenRecrawl(at, strategy.RecrawlConfig{Min: revisitAfter, Max: revisitAfter, Rounds: s.plan.Rounds})
}
