// Drafts of forms.
