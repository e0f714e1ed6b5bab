package lab

import "github.com/orbweaver/orbweaver/internal/web/classify"

// topicCrawlName is the name of the result.
const topicCrawlName = "topic-crawl"

// result returns the measurements: a place for each web, and for each of its categories, parts by hash, numbers of
// crawlers, and ways.
func (x *TopicCrawl) result(webs []TopicWeb) *Result {
	d := newData("web", "part", "name")
	d.Fact("memory", scalingMemory)
	d.Fact("crawlers", topicCrawlers)
	d.Fact("draws", topicDraws)
	d.Fact("unclassifiable", classify.Unclassifiable)
	for i := range webs {
		w := &webs[i]
		d.At(w.Name).All(w)
		for i, c := range w.Categories {
			at := d.At(w.Name, "category", c.Name).All(c)
			if i < len(w.Hash) { // for the bar beside it
				at.Set("tau_of_a_part_by_hash", w.Hash[i].Tau)
			}
		}
		for _, h := range w.Hash {
			d.At(w.Name, "hash", h.Name).All(h)
		}
		for i, n := range w.ByCrawlers {
			if i == 0 && n == 0 {
				continue
			}
			at := d.At(w.Name, "number", i).Set("by_crawlers", n)
			if i < len(w.ByAgents) {
				at.Set("by_agents", w.ByAgents[i]).Set("logged", w.Logged[i])
			}
		}
		for _, c := range w.Costs {
			d.At(w.Name, "way", c.Way).All(c).Set("sent_for_pages", c.ByCall["pages"]).
				Set("sent_for_links", c.ByCall["push"]+c.ByCall["known"]).Set("sent_for_replicas", c.ByCall["ship"])
		}
	}
	return &Result{Name: topicCrawlName, Rows: d}
}
