package main

import (
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows how far a verb has come: a bar on a terminal, from the first
// second on; with --json an object a second on stderr; else nothing. stop
// removes the bar; report may be called from any goroutine, before stop.
func (k *call) progress(verb string) (report func(progress), stop func()) {
	switch {
	case k.Quiet:
		return nil, func() {}
	case k.JSON:
		return k.progressLines(verb), func() {}
	case k.Terminal:
		return k.progressBar(verb)
	}
	return nil, func() {}
}

// progressLine is one line of progress on stderr with --json.
type progressLine struct {
	Progress struct {
		Verb string `json:"verb"`
		progress
	} `json:"progress"`
}

func (k *call) progressLines(verb string) func(progress) {
	var mu sync.Mutex // guards last
	last := time.Now()
	return func(p progress) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) < time.Second {
			return
		}
		last = time.Now()
		var l progressLine
		l.Progress.Verb, l.Progress.progress = verb, p
		_ = writeJSON(k.Stderr, l) // a closed stderr must not stop the work
	}
}

func (k *call) progressBar(verb string) (report func(progress), stop func()) {
	var mu sync.Mutex // guards bar and stopped
	var bar *progressbar.ProgressBar
	stopped, start := false, time.Now()
	report = func(p progress) {
		mu.Lock()
		defer mu.Unlock()
		if stopped || bar == nil && time.Since(start) < time.Second {
			return
		}
		if bar == nil {
			bar = progressbar.NewOptions64(p.Total,
				progressbar.OptionSetWriter(k.Stderr),
				progressbar.OptionSetDescription(verb),
				progressbar.OptionShowBytes(true),
				progressbar.OptionThrottle(100*time.Millisecond),
				progressbar.OptionClearOnFinish())
		}
		if bar.GetMax64() != p.Total {
			bar.ChangeMax64(p.Total)
		}
		_ = bar.Set64(p.Done)
	}
	return report, func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		if bar != nil {
			_ = bar.Clear()
		}
	}
}
