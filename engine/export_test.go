package engine

// Place names the store so that it can be opened: with what follows the "?".
func (s CatalogStore) Place() string { return s.place.URL }
