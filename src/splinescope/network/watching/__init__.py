"""Forward passes as they run: which functions a model calls, in which module, and on which side of folds.

In: any module and a batch. Out: calls, sites, statistics. The only room that intercepts a forward pass. Imports
`network`, `ops`, `outputs`, `program`, `readable` and `support`.
"""
