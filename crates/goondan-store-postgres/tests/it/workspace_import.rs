//! A workspace takes over the contents of another workspace.

use goondan_core::ports::store::{InstanceStore as _, RecordStore as _, WorkspaceLog as _};
use goondan_store::suite::samples::{accepted, event, instance, meta};
use goondan_store_postgres::{WorkspaceImport, workspaces};
use serde_json::json;

use crate::database::{database, new_workspace_name, open};

#[tokio::test(flavor = "multi_thread")]
async fn adopt_moves_everything_and_sets_previous_contents_aside() {
    let Some(address) = database() else { return };
    let (own, former) = (new_workspace_name(), new_workspace_name());
    let (old, new, waiting) = (
        instance("old"),
        instance("new"),
        event("waiting", &instance("old")),
    );
    let (store, former_store) = (
        open(&address, &own).await.unwrap(),
        open(&address, &former).await.unwrap(),
    );
    assert_eq!(
        store.adopt(&former_store).await.unwrap(),
        None,
        "the former workspace is empty"
    );
    former_store.append(accepted(&waiting)).await.unwrap();
    former_store.put_instance(&meta(&old)).await.unwrap();
    assert!(former_store.put(&old, "x", &json!(1), None).await.unwrap());
    store.put_instance(&meta(&new)).await.unwrap();
    let aside = format!("{own}-aside-1");
    assert_eq!(
        store.adopt(&former_store).await.unwrap(),
        Some(WorkspaceImport {
            aside: Some(aside.clone())
        })
    );
    assert_eq!(
        store.adopt(&former_store).await.unwrap(),
        None,
        "the former workspace is empty after the import"
    );
    drop((store, former_store));
    let store = open(&address, &own).await.unwrap();
    assert_eq!(store.recover().await.unwrap().pending, [waiting]);
    assert_eq!(store.instances().await.unwrap(), [meta(&old)]);
    assert_eq!(
        store
            .get(&old, "x")
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
    let names = workspaces(&address).await.unwrap();
    assert!(
        [&own, &former, &aside]
            .iter()
            .all(|name| names.contains(name)),
        "{names:?}"
    );
}
