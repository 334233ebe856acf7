//! Tests that a workspace takes over the contents of another one.

use goondan_core::ports::store::{InstanceStore as _, RecordStore as _, WorkspaceLog as _};
use goondan_store::suite::samples::{accepted, event, instance, meta};
use goondan_store_postgres::{WorkspaceImport, workspaces};
use serde_json::json;

use crate::place::{database, fresh, open};

#[tokio::test(flavor = "multi_thread")]
async fn everything_comes_along_and_what_was_there_is_put_aside() {
    let Some(address) = database() else { return };
    let (own, former) = (fresh(), fresh());
    let (old, new, waiting) = (
        instance("old"),
        instance("new"),
        event("waiting", &instance("old")),
    );
    let (mine, theirs) = (
        open(&address, &own).await.unwrap(),
        open(&address, &former).await.unwrap(),
    );
    assert_eq!(
        mine.adopt(&theirs).await.unwrap(),
        None,
        "there is nothing to take over"
    );
    theirs.append(accepted(&waiting)).await.unwrap();
    theirs.put_instance(&meta(&old)).await.unwrap();
    assert!(theirs.put(&old, "x", &json!(1), None).await.unwrap());
    mine.put_instance(&meta(&new)).await.unwrap();
    let aside = format!("{own}-aside-1");
    assert_eq!(
        mine.adopt(&theirs).await.unwrap(),
        Some(WorkspaceImport {
            aside: Some(aside.clone())
        })
    );
    assert_eq!(
        mine.adopt(&theirs).await.unwrap(),
        None,
        "it has nothing any more"
    );
    drop((mine, theirs));
    let mine = open(&address, &own).await.unwrap();
    assert_eq!(mine.recover().await.unwrap().pending, [waiting]);
    assert_eq!(mine.instances().await.unwrap(), [meta(&old)]);
    assert_eq!(
        mine.get(&old, "x")
            .await
            .unwrap()
            .map(|record| record.value),
        Some(json!(1))
    );
    assert_eq!(
        open(&address, &aside)
            .await
            .unwrap()
            .instances()
            .await
            .unwrap(),
        [meta(&new)]
    );
    assert_eq!(
        open(&address, &former)
            .await
            .unwrap()
            .instances()
            .await
            .unwrap(),
        []
    );
    let known = workspaces(&address).await.unwrap();
    assert!(
        [&own, &former, &aside]
            .iter()
            .all(|name| known.contains(name)),
        "{known:?}"
    );
}
