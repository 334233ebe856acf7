//! Exchanges messages between the nodes of a workspace.
//!
//! Each packet has a number. The sender keeps it until the recipient acknowledges it, and resends
//! it after a timeout or a lost connection. Packets therefore survive a lost connection and a crash
//! of the database. The recipient processes packets in the order of their numbers, each once.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use goondan_core::ports::store::StoreError;
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
/// Number of a packet that carries only an acknowledgment.
const ACK_ONLY: i64 = 0;
/// Maximum number of packets per statement and recipient.
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
pub(crate) type ReceivedMessage = (String, String);

enum ChannelCommand {
    Send { to: String, message: String },
    Forget { node: String },
}

/// The connection of one node to all others. When dropped, it stops sending and receiving.
pub(crate) struct ReliableChannel {
    commands: UnboundedSender<ChannelCommand>,
    task: AbortHandle,
}

impl Drop for ReliableChannel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ReliableChannel {
    /// Opens the connection, and returns it with the incoming messages.
    pub(crate) fn open(access: &Arc<SessionAccess>) -> (Self, UnboundedReceiver<ReceivedMessage>) {
        let (commands, waiting) = unbounded_channel();
        let (received, incoming) = unbounded_channel();
        let connection = ReconnectingSession::new(Arc::clone(access), SessionKind::Quick);
        let channel_task = ReliableChannelTask {
            access: Arc::clone(access),
            connection,
            session: None,
            peers: HashMap::new(),
            received,
        };
        let task = tokio::spawn(channel_task.run(waiting)).abort_handle();
        (ReliableChannel { commands, task }, incoming)
    }

    /// Queues a message to the node `to`. Does nothing if this node is no longer a member.
    pub(crate) fn send(&self, to: &str, message: String) {
        // The task ends when this node is no longer a member.
        let _ = self.commands.send(ChannelCommand::Send {
            to: to.to_owned(),
            message,
        });
    }

    /// Discards the packets to and from a node that has left.
    pub(crate) fn forget(&self, node: &str) {
        let _ = self.commands.send(ChannelCommand::Forget {
            node: node.to_owned(),
        });
    }
}

/// A packet without acknowledgement.
struct UnackedPacket {
    number: i64,
    message: String,
    /// Time of the last attempt; `None` if no attempt is known to have succeeded.
    sent: Option<Instant>,
}

impl UnackedPacket {
    /// Returns true if the packet must be sent at the time `now`.
    fn is_due(&self, now: Instant) -> bool {
        self.sent.is_none_or(|sent| sent + RESEND_INTERVAL <= now)
    }
}

/// The columns of the packets that one statement sends.
#[derive(Default)]
struct PacketBatch {
    recipients: Vec<String>,
    numbers: Vec<i64>,
    acks: Vec<i64>,
    bodies: Vec<String>,
}

impl PacketBatch {
    /// Adds a packet. `ack` is the number of the last packet that was received from `recipient`.
    fn add(&mut self, recipient: &str, number: i64, ack: i64, body: &str) {
        self.recipients.push(recipient.to_owned());
        self.numbers.push(number);
        self.acks.push(ack);
        self.bodies.push(body.to_owned());
    }
}

#[derive(Default)]
struct ChannelPeer {
    /// Number of the last packet to this peer.
    last_queued: i64,
    unacked: VecDeque<UnackedPacket>,
    /// All packets up to this number were received.
    last_received: i64,
    /// Packets received out of order.
    out_of_order: BTreeMap<i64, String>,
    /// True if an acknowledgement is due.
    owes_ack: bool,
    is_gone: bool,
}

struct ReliableChannelTask {
    access: Arc<SessionAccess>,
    connection: ReconnectingSession,
    session: Option<Arc<DatabaseSession>>,
    peers: HashMap<String, ChannelPeer>,
    received: UnboundedSender<ReceivedMessage>,
}

impl ReliableChannelTask {
    /// Sends and receives packets until this node loses its access.
    async fn run(mut self, mut commands: UnboundedReceiver<ChannelCommand>) {
        let mut batch = Vec::new();
        while self.access.check().is_ok() {
            // Without a session, the default is never notified.
            let notification = self
                .session
                .as_ref()
                .map_or_else(Arc::default, |session| Arc::clone(&session.notification));
            let mut is_receiving = true;
            tokio::select! {
                count = commands.recv_many(&mut batch, MAX_BATCH_PACKETS) => {
                    if count == 0 {
                        return;
                    }
                    is_receiving = false;
                }
                () = notification.notified() => {}
                () = tokio::time::sleep(PACKET_POLL_INTERVAL) => {}
            }
            for command in batch.drain(..) {
                self.apply_command(command);
            }
            if let Err(error) = self.exchange_packets(is_receiving).await {
                tracing::debug!(%error, "could not exchange cluster messages; retrying");
            }
        }
    }

    /// Numbers and queues a message, or forgets all packets of a lost node.
    fn apply_command(&mut self, command: ChannelCommand) {
        match command {
            ChannelCommand::Send { to, message } => {
                let peer = self.peers.entry(to).or_default();
                if !peer.is_gone {
                    peer.last_queued += 1;
                    peer.unacked.push_back(UnackedPacket {
                        number: peer.last_queued,
                        message,
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
        let session = self.connected_session().await?;
        let result = match self.send_due_packets(&session, is_receiving).await {
            Ok(()) if is_receiving => self.receive(&session).await,
            sent => sent,
        };
        if result.is_err() {
            self.session = None;
        }
        result
    }

    /// Returns the listening session. On a new session, all unacknowledged packets are resent.
    async fn connected_session(&mut self) -> Result<Arc<DatabaseSession>, StoreError> {
        let session = self.connection.session().await?;
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
            .map_err(crate::rows::store_error)?;
        self.session = Some(Arc::clone(&session));
        self.peers
            .values_mut()
            .flat_map(|peer| &mut peer.unacked)
            .for_each(|packet| packet.sent = None);
        Ok(session)
    }

    /// Sends the packets that were never sent or not acknowledged in time. With `with_acks`, also
    /// sends a packet without a message to each peer that waits for an acknowledgment only.
    async fn send_due_packets(
        &mut self,
        session: &DatabaseSession,
        with_acks: bool,
    ) -> Result<(), StoreError> {
        let mut batch = PacketBatch::default();
        let now = Instant::now();
        for (name, peer) in &mut self.peers {
            let due_packets = peer
                .unacked
                .iter_mut()
                .filter(|packet| packet.is_due(now))
                .take(MAX_BATCH_PACKETS);
            let mut has_due_packets = false;
            for packet in due_packets {
                packet.sent = Some(now);
                batch.add(name, packet.number, peer.last_received, &packet.message);
                has_due_packets = true;
            }
            if has_due_packets {
                // Each packet also carries the acknowledgment.
                peer.owes_ack = false;
            } else if peer.owes_ack && with_acks {
                batch.add(name, ACK_ONLY, peer.last_received, "");
                peer.owes_ack = false;
            }
        }
        if batch.numbers.is_empty() {
            return Ok(());
        }
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 6] = [
            &self.access.id,
            &self.access.node,
            &batch.recipients,
            &batch.numbers,
            &batch.acks,
            &batch.bodies,
        ];
        session
            .query(SEND, &values)
            .await
            .map(drop)
            .map_err(crate::rows::store_error)
    }

    /// Receives packets, removes acknowledged packets from the queues, and delivers messages in
    /// order without gaps.
    async fn receive(&mut self, session: &DatabaseSession) -> Result<(), StoreError> {
        let rows = session
            .query(TAKE, &[&self.access.id, &self.access.node])
            .await
            .map_err(crate::rows::store_error)?;
        for row in &rows {
            let (sender, number, ack): (String, i64, i64) = (row.get(0), row.get(1), row.get(2));
            let peer = self.peers.entry(sender.clone()).or_default();
            while peer
                .unacked
                .front()
                .is_some_and(|packet| packet.number <= ack)
            {
                peer.unacked.pop_front();
            }
            if number == ACK_ONLY || peer.is_gone {
                continue;
            }
            peer.owes_ack = true;
            if number > peer.last_received {
                peer.out_of_order.insert(number, row.get(3));
            }
            while let Some(message) = peer.out_of_order.remove(&(peer.last_received + 1)) {
                peer.last_received += 1;
                // Without a receiver, the task is about to end.
                let _ = self.received.send((sender.clone(), message));
            }
        }
        Ok(())
    }
}

/// Deletes the packets from and to a node.
pub(crate) async fn clear(
    connection: &ReconnectingSession,
    workspace: i64,
    node: &str,
) -> Result<(), StoreError> {
    connection
        .query(CLEAR, &[&workspace, &node])
        .await
        .map(drop)
}
