//! Numbered objects. A new object gets the lowest free number, as with the driver's allocators, or
//! one that its owner has retired (libcxi.md 10).

use std::collections::BTreeMap;

/// Objects with numbers from `first` up to (not including) `end`.
pub struct Table<T> {
    entries: Vec<Option<T>>,
    first: usize,
    end: usize,
    /// Numbers of removed objects that are not free yet, with their owners.
    retired: BTreeMap<usize, usize>,
}

impl<T> Table<T> {
    /// Makes an empty table.
    pub fn new(first: usize, end: usize) -> Self {
        Self { entries: Vec::new(), first, end, retired: BTreeMap::new() }
    }

    /// Inserts `object` at the lowest free number and returns it; `None` when all numbers are in
    /// use.
    pub fn insert(&mut self, object: T) -> Option<usize> {
        let mut numbers = self.first..self.end;
        let number = numbers.find(|number| self.is_free(*number))?;
        self.place(number, object);
        Some(number)
    }

    /// Inserts `object` at a number that `owner` has retired, else as [`insert`](Self::insert).
    pub fn insert_again(&mut self, owner: usize, object: T) -> Option<usize> {
        let mut retired = self.retired.iter();
        let Some((&number, _)) = retired.find(|(_, by)| **by == owner) else {
            return self.insert(object);
        };
        self.retired.remove(&number);
        self.place(number, object);
        Some(number)
    }

    fn is_free(&self, number: usize) -> bool {
        self.get(number).is_none() && !self.retired.contains_key(&number)
    }

    fn place(&mut self, number: usize, object: T) {
        if number >= self.entries.len() {
            self.entries.resize_with(number + 1, || None);
        }
        self.entries[number] = Some(object);
    }

    /// Removes and returns the object with a number, which `owner` keeps until
    /// [`free_retired`](Self::free_retired).
    pub fn retire(&mut self, number: usize, owner: usize) -> Option<T> {
        let object = self.remove(number)?;
        self.retired.insert(number, owner);
        Some(object)
    }

    /// How many numbers an owner has retired.
    pub fn retired_by(&self, owner: usize) -> usize {
        self.retired.values().filter(|&&by| by == owner).count()
    }

    /// Frees the numbers that an owner has retired.
    pub fn free_retired(&mut self, owner: usize) {
        self.retired.retain(|_, by| *by != owner);
    }

    #[inline]
    pub fn get(&self, number: usize) -> Option<&T> {
        self.entries.get(number)?.as_ref()
    }

    #[inline]
    pub fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.entries.get_mut(number)?.as_mut()
    }

    /// Removes and returns the object with a number.
    pub fn remove(&mut self, number: usize) -> Option<T> {
        let object = self.entries.get_mut(number)?.take();
        while matches!(self.entries.last(), Some(None)) {
            self.entries.pop();
        }
        object
    }

    /// One more than the highest number in use.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Iterates over the objects with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(number, entry)| Some((number, entry.as_ref()?)))
    }

    /// Iterates over the objects.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn assigns_lowest_free_number_within_bounds() {
        let mut table = Table::new(1, 4);
        assert_eq!(
            [table.insert('a'), table.insert('b'), table.insert('c')],
            [Some(1), Some(2), Some(3)]
        );
        assert_eq!(table.insert('d'), None);
        assert_eq!(table.remove(2), Some('b'));
        assert_eq!(table.insert('e'), Some(2));
        assert_eq!(table.get(0), None);
        assert_eq!(table.get(2), Some(&'e'));
        assert_eq!(table.remove(9), None);
    }

    #[test]
    fn retired_numbers_are_only_their_owners() {
        let mut table = Table::new(1, 4);
        table.insert('a');
        table.insert('b');
        assert_eq!(table.retire(1, 7), Some('a'));
        assert_eq!(table.retire(1, 7), None);
        assert_eq!((table.retired_by(7), table.retired_by(8)), (1, 0));
        assert_eq!(table.insert_again(8, 'c'), Some(3));
        assert_eq!(table.insert('d'), None);
        assert_eq!(table.insert_again(7, 'e'), Some(1));
        assert_eq!(table.retired_by(7), 0);
        table.retire(2, 7);
        table.free_retired(8);
        assert_eq!(table.insert('f'), None);
        table.free_retired(7);
        assert_eq!(table.insert('f'), Some(2));
    }

    #[test]
    fn length_shrinks_with_the_last_object() {
        let mut table = Table::new(0, 8);
        table.insert(());
        table.insert(());
        table.remove(0);
        assert_eq!(table.len(), 2);
        table.remove(1);
        assert_eq!(table.len(), 0);
    }
}
