package main

import (
	"fmt"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// withheld says that u gets no credentials although its host has some, and which prefix would send them. It returns ""
// if nothing is withheld.
func withheld(t *sheet.Table, u weburl.URL) string {
	name, prefix := t.Withheld(u)
	if name == "" {
		return ""
	}
	return fmt.Sprintf("no %s is sent to %s: that of %s goes over https only, and to port 443 unless it names "+
		"another; if it may go there, write %[2]s instead of %[3]s", name, report.Clean(u.Origin()),
		report.Clean(prefix))
}

// withheldFromSeeds returns what withheld says of the first seed that gets no credentials of its host.
func withheldFromSeeds(cfg *node.Config) string {
	for _, s := range cfg.Seeds {
		if t, err := input.ParseURL("seed", s); err == nil { // node.Open says what is wrong with a seed
			if text := withheld(cfg.Hosts, t.URL); text != "" {
				return text
			}
		}
	}
	return ""
}
