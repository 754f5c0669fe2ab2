package repo

import (
	"container/heap"
	"context"
)

// CommonAncestor is the newest version that both a and b are or come from,
// along all parents; zero when there is none, or one of them is zero. read
// gives a version: Repository.ReadVersion, or one that knows more.
//
// A version is later than its parents (invariant 5), so the newest that is
// still to be looked at has been reached from all its children.
func CommonAncestor(ctx context.Context, a, b ID, read func(context.Context, ID) (*Version, error)) (ID, error) {
	const fromA, fromB = 1, 2
	reached := map[ID]int{}
	var queue byAge
	push := func(id ID, from int) error {
		if id == "" {
			return nil
		}
		if reached[id] == 0 {
			v, err := read(ctx, id)
			if err != nil {
				return err
			}
			heap.Push(&queue, v)
		}
		reached[id] |= from
		return nil
	}
	if err := push(a, fromA); err != nil {
		return "", err
	}
	if err := push(b, fromB); err != nil {
		return "", err
	}
	for queue.Len() > 0 {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		v := heap.Pop(&queue).(*Version)
		from := reached[v.ID]
		if from == fromA|fromB {
			return v.ID, nil
		}
		for _, p := range v.Parents {
			if err := push(p, from); err != nil {
				return "", err
			}
		}
	}
	return "", nil
}

// byAge is a heap of versions, the newest on top.
type byAge []*Version

func (q byAge) Len() int { return len(q) }
func (q byAge) Less(i, j int) bool {
	if !q[i].CreatedAt.Equal(q[j].CreatedAt) {
		return q[i].CreatedAt.After(q[j].CreatedAt)
	}
	return q[i].Number > q[j].Number
}
func (q byAge) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *byAge) Push(x any)   { *q = append(*q, x.(*Version)) }
func (q *byAge) Pop() any {
	old := *q
	v := old[len(old)-1]
	*q = old[:len(old)-1]
	return v
}
