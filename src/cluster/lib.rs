//! The processes of a survey.

#![forbid(unsafe_code)]

pub mod host_list;
pub mod host_locations;
pub mod launcher;
pub mod location;
pub mod meeting_point;
pub mod survey;
pub mod tree;
