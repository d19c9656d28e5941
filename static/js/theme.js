// Runs before the first paint, so that a page in a chosen theme does not flash in the other one.
document.documentElement.dataset.theme = localStorage.getItem('theme') ?? 'system';
