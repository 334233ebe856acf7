//! Exchanges messages between the nodes of a workspace.
//!
//! Each packet has a number. The sender keeps it until the recipient acknowledges it, and resends
//! it after a timeout or a lost connection. Packets therefore survive a lost connection and a crash
//! of the database. The recipient processes packets in the order of their numbers, each once.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use goondan_core::ports::store::StoreError;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::leadership::SessionAccess;
use crate::reconnecting_session::ReconnectingSession;
use crate::session::{DatabaseSession, SessionKind};

/// Interval of checking for packets without a notification.
const PACKET_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Time without acknowledgement after which a packet is resent.
const RESEND_INTERVAL: Duration = Duration::from_secs(3);
/// Maximum number of packets per statement.
const MAX_BATCH_PACKETS: usize = 512;

const SEND: &str = "\
    WITH new AS (
        INSERT INTO goondan.packets (workspace, recipient, sender, number, ack, body)
        SELECT $1, p.recipient, $2::text, p.number, p.ack, p.body
        FROM unnest($3::text[], $4::bigint[], $5::bigint[], $6::text[]) AS p(recipient, number, \
    ack, body)
        ON CONFLICT (workspace, recipient, sender, number) DO UPDATE SET ack = excluded.ack \
    RETURNING recipient
    )
    SELECT pg_notify('goondan_' || $1::bigint || '_' || r.recipient, '')::text FROM (SELECT \
    DISTINCT recipient FROM new) r";

const TAKE: &str = "\
    DELETE FROM goondan.packets WHERE workspace = $1 AND recipient = $2 RETURNING sender, number, \
    ack, body";

const CLEAR: &str =
    "DELETE FROM goondan.packets WHERE workspace = $1 AND (sender = $2 OR recipient = $2)";

/// Sender and contents of a received message.
pub(crate) type Said = (String, String);

enum ChannelCommand {
    Say { to: String, words: String },
    Forget { node: String },
}

/// The connection of one node to all others. When dropped, it stops sending and receiving.
pub(crate) struct ReliableChannel {
    orders: UnboundedSender<ChannelCommand>,
    task: AbortHandle,
}

impl Drop for ReliableChannel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ReliableChannel {
    /// Opens the connection, and returns it with the incoming messages.
    pub(crate) fn open(access: &Arc<SessionAccess>) -> (Self, UnboundedReceiver<Said>) {
        let (orders, waiting) = unbounded_channel();
        let (said, incoming) = unbounded_channel();
        let line = ReconnectingSession::new(Arc::clone(access), SessionKind::Quick);
        let clerk = ReliableChannelTask {
            access: Arc::clone(access),
            line,
            session: None,
            peers: HashMap::new(),
            said,
        };
        let task = tokio::spawn(clerk.run(waiting)).abort_handle();
        (ReliableChannel { orders, task }, incoming)
    }

    /// Queues a message to the node `to`. Does nothing after the channel ends.
    pub(crate) fn say(&self, to: &str, words: String) {
        // If the task has ended, this node is no longer a member.
        let _ = self.orders.send(ChannelCommand::Say {
            to: to.to_owned(),
            words,
        });
    }

    /// Discards the packets to and from a node that has left.
    pub(crate) fn forget(&self, node: &str) {
        let _ = self.orders.send(ChannelCommand::Forget {
            node: node.to_owned(),
        });
    }
}

/// A packet without acknowledgement.
struct UnackedPacket {
    number: i64,
    words: String,
    /// Time of the last attempt; `None` if no attempt is known to have succeeded.
    sent: Option<Instant>,
}

#[derive(Default)]
struct ChannelPeer {
    last: i64,
    unheard: VecDeque<UnackedPacket>,
    /// All packets up to this number were received.
    heard: i64,
    /// Packets received out of order.
    early: BTreeMap<i64, String>,
    /// True if an acknowledgement is due.
    owes_word: bool,
    is_gone: bool,
}

struct ReliableChannelTask {
    access: Arc<SessionAccess>,
    line: ReconnectingSession,
    session: Option<Arc<DatabaseSession>>,
    peers: HashMap<String, ChannelPeer>,
    said: UnboundedSender<Said>,
}

impl ReliableChannelTask {
    /// Sends and receives packets until this node loses its access.
    async fn run(mut self, mut orders: UnboundedReceiver<ChannelCommand>) {
        let mut batch = Vec::new();
        while self.access.check().is_ok() {
            let bell = self
                .session
                .as_ref()
                .map_or_else(Arc::default, |session| Arc::clone(&session.bell));
            let mut is_receiving = true;
            tokio::select! {
                count = orders.recv_many(&mut batch, MAX_BATCH_PACKETS) => {
                    if count == 0 {
                        return;
                    }
                    is_receiving = false;
                }
                () = wait_for_notification(&bell) => {}
                () = tokio::time::sleep(PACKET_POLL_INTERVAL) => {}
            }
            for order in batch.drain(..) {
                self.apply_command(order);
            }
            if let Err(error) = self.exchange_packets(is_receiving).await {
                tracing::debug!(%error, "could not exchange cluster messages; retrying");
            }
        }
    }

    /// Numbers and queues a message, or forgets all packets of a lost node.
    fn apply_command(&mut self, order: ChannelCommand) {
        match order {
            ChannelCommand::Say { to, words } => {
                let peer = self.peers.entry(to).or_default();
                if !peer.is_gone {
                    peer.last += 1;
                    peer.unheard.push_back(UnackedPacket {
                        number: peer.last,
                        words,
                        sent: None,
                    });
                }
            }
            ChannelCommand::Forget { node } => drop(self.peers.insert(
                node,
                ChannelPeer {
                    is_gone: true,
                    ..ChannelPeer::default()
                },
            )),
        }
    }

    /// Sends due packets, and with `is_receiving` also receives. Drops the session on an error.
    async fn exchange_packets(&mut self, is_receiving: bool) -> Result<(), StoreError> {
        let session = self.connected().await?;
        let result = match self.send_due(&session, is_receiving).await {
            Ok(()) if is_receiving => self.receive(&session).await,
            sent => sent,
        };
        if result.is_err() {
            self.session = None;
        }
        result
    }

    /// Returns the listening session. On a new session, all unacknowledged packets are resent.
    async fn connected(&mut self) -> Result<Arc<DatabaseSession>, StoreError> {
        let session = self.line.session().await?;
        if self
            .session
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, &session))
        {
            return Ok(session);
        }
        let channel = format!("goondan_{}_{}", self.access.id, self.access.node);
        session
            .run(&format!("LISTEN {channel}"))
            .await
            .map_err(crate::rows::failed)?;
        self.session = Some(Arc::clone(&session));
        self.peers
            .values_mut()
            .flat_map(|peer| &mut peer.unheard)
            .for_each(|packet| packet.sent = None);
        Ok(session)
    }

    /// Sends packets that were never sent or not acknowledged in time. With `with_acks`, also sends
    /// acknowledgments that no packet carries.
    async fn send_due(
        &mut self,
        session: &DatabaseSession,
        with_acks: bool,
    ) -> Result<(), StoreError> {
        let (mut recipients, mut numbers, mut acks, mut bodies) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let now = Instant::now();
        for (name, peer) in &mut self.peers {
            let due = |packet: &&mut UnackedPacket| {
                packet.sent.is_none_or(|sent| sent + RESEND_INTERVAL <= now)
            };
            let before = numbers.len();
            for packet in peer.unheard.iter_mut().filter(due).take(MAX_BATCH_PACKETS) {
                packet.sent = Some(now);
                recipients.push(name.clone());
                numbers.push(packet.number);
                acks.push(peer.heard);
                bodies.push(packet.words.clone());
            }
            if numbers.len() == before && peer.owes_word && with_acks {
                recipients.push(name.clone());
                numbers.push(0);
                acks.push(peer.heard);
                bodies.push(String::new());
            }
            peer.owes_word &= numbers.len() == before;
        }
        if numbers.is_empty() {
            return Ok(());
        }
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 6] = [
            &self.access.id,
            &self.access.node,
            &recipients,
            &numbers,
            &acks,
            &bodies,
        ];
        session
            .query(SEND, &values)
            .await
            .map(drop)
            .map_err(crate::rows::failed)
    }

    /// Receives packets, removes acknowledged packets from the queues, and delivers messages in
    /// order without gaps.
    async fn receive(&mut self, session: &DatabaseSession) -> Result<(), StoreError> {
        let rows = session
            .query(TAKE, &[&self.access.id, &self.access.node])
            .await
            .map_err(crate::rows::failed)?;
        for row in &rows {
            let (sender, number, ack): (String, i64, i64) = (row.get(0), row.get(1), row.get(2));
            let peer = self.peers.entry(sender.clone()).or_default();
            while peer
                .unheard
                .front()
                .is_some_and(|packet| packet.number <= ack)
            {
                peer.unheard.pop_front();
            }
            if number == 0 || peer.is_gone {
                continue;
            }
            peer.owes_word = true;
            if number > peer.heard {
                peer.early.insert(number, row.get(3));
            }
            while let Some(words) = peer.early.remove(&(peer.heard + 1)) {
                peer.heard += 1;
                // Without a receiver, the task is about to end.
                let _ = self.said.send((sender.clone(), words));
            }
        }
        Ok(())
    }
}

/// Waits until the database announces a new packet.
async fn wait_for_notification(bell: &Notify) {
    bell.notified().await;
}

/// Deletes the packets from and to a node.
pub(crate) async fn clear(
    line: &ReconnectingSession,
    workspace: i64,
    node: &str,
) -> Result<(), StoreError> {
    line.query(CLEAR, &[&workspace, &node]).await.map(drop)
}
