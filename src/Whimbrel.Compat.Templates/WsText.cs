namespace Whimbrel.Compat.Templates;

/// <summary>Ws*Server, Ws*Session and Ws*Client.</summary>
internal static class WsText
{
    private static readonly (string Kind, string What)[] s_kinds = [("Text", "a message of text"), ("Binary", "a message of bytes"), ("Close", "a close"), ("Ping", "a ping"), ("Pong", "a pong")];

    internal static string Server(Variant v) => $$"""
        using System.Net;
        using Whimbrel;
        using Whimbrel.Compat;
        using Whimbrel.Compat.Links;
        using Whimbrel.Http;

        namespace NetCoreServer;

        /// <summary>A server of WebSockets{{v.Over}}: make its sessions in <see cref="CreateSession"/>. It answers HTTP as well.</summary>
        public class Ws{{v.S}}Server : Http{{v.S}}Server, IWebSocket
        {
        {{Members.Constructors(v, $"Ws{v.S}Server")}}
            /// <summary>The sessions whose WebSocket is open, from their handshake up to their close.</summary>
            internal SessionGroup OpenSockets { get; } = new("WebSockets");

            /// <summary>Closes all WebSockets without a status, and disconnects all sessions.</summary>
            /// <returns>False: the server is not started.</returns>
            public virtual bool CloseAll() => CloseAll(0, ReadOnlySpan<byte>.Empty);

            /// <summary>Closes all WebSockets, and disconnects all sessions.</summary>
            /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
            /// <returns>False: the server is not started.</returns>
            public virtual bool CloseAll(int status) => CloseAll(status, ReadOnlySpan<byte>.Empty);

        {{Members.Forms("public virtual bool CloseAll", "Closes all WebSockets with a reason, and disconnects all sessions.", "False: the server is not started.", $$"""

                {
                    if (!IsStarted) return false;
                    foreach ((_, {{v.Transport}}Session session) in Sessions)
                    {
                        if (session is Ws{{v.S}}Session { WebSocket.IsOpen: true } open) open.SendCloseAsync(status, buffer);
                    }

                    return DisconnectAll();
                }
            """, "int status")}}

            /// <summary>Sends bytes as they are to all sessions whose WebSocket is open.</summary>
            /// <param name="buffer">Whole frames. Copied.</param>
            /// <returns>False: the server is not started.</returns>
            public override bool Multicast(ReadOnlySpan<byte> buffer)
            {
                if (!IsStarted) return false;
                if (buffer.IsEmpty || Broadcast(buffer, OpenSockets)) return true;
                Link.ToEach<Guid, {{v.Transport}}Session, EachOpen>(buffer, Sessions);
                return true;
            }

        {{Multicasts()}}

            /// <summary>Makes the session of a connection.</summary>
            protected override {{v.Transport}}Session CreateSession() => new Ws{{v.S}}Session(this);

            private readonly struct EachOpen : IEachSend<{{v.Transport}}Session>
            {
                public static void Send({{v.Transport}}Session session, Multicasting multicasting, ReadOnlySpan<byte> data)
                {
                    if (session is Ws{{v.S}}Session { WebSocket: { IsOpen: true, IsClosing: false } }) session.SendAsync(data);
                }
            }
        }

        """;

    private static string Multicasts() => string.Join("\n\n", s_kinds.Where(static k => k.Kind is "Text" or "Binary" or "Ping").Select(static k => Members.Forms($"public bool Multicast{k.Kind}",
        $"Sends {k.What} to all sessions whose WebSocket is open. It is composed once.", "False: the server is not started.", $$"""

                {
                    using PooledFrame frame = new(WebSocketPart.{{k.Kind}}, buffer, ofClient: false);
                    return Multicast(frame.Span);
                }
            """)));

    internal static string Session(Variant v) => $$"""
        using System.Net.Sockets;
        using Whimbrel.Compat;
        using Whimbrel.Http;

        namespace NetCoreServer;

        /// <summary>
        /// The server's side of a WebSocket{{v.Over}}: override <see cref="OnWsReceived"/>. Until it is upgraded it is a session of HTTP. Frames are read strictly, within limits
        /// (<see cref="NetCoreServer.WebSocket"/>).
        /// </summary>
        public class Ws{{v.S}}Session : Http{{v.S}}Session, IWebSocket, IWsOwner
        {
            /// <summary>Makes the session of a connection.</summary>
            /// <param name="server">Its server.</param>
            public Ws{{v.S}}Session(Ws{{v.S}}Server server)
                : base(server) => WebSocket = new WebSocket(this);

            internal WebSocket WebSocket { get; }

            private protected override bool IsUpgraded => WebSocket.IsOpen;

            bool? IWsOwner.Queue(ReadOnlySpan<byte> head, ReadOnlySpan<byte> payload) => HasOwnSending ? null : QueueInPieces(head, payload);

        {{Closing("Close", "SendClose", "Disconnect")}}

        {{Sending()}}
            /// <summary>The connection is about to end: a WebSocket that was not closed is, with 1001.</summary>
            protected override void OnDisconnecting()
            {
                if (!WebSocket.IsOpen) return;
                WsSending.QueueClose(WebSocket, this, (int)WebSocketStatus.GoingAway, default);
                OnWsDisconnecting();
            }

            /// <summary>The connection has ended.</summary>
            protected override void OnDisconnected()
            {
                base.OnDisconnected();
                bool wasOpen = WebSocket.IsOpen;
                WebSocket.ClearWsBuffers();
                if (wasOpen) OnWsDisconnected();
            }

            /// <summary>Reads frames, and requests until it is upgraded.</summary>
            /// <param name="buffer">Where their bytes lie. Frames are unmasked in place.</param>
            /// <param name="offset">Where they begin.</param>
            /// <param name="size">How many they are.</param>
            protected override void OnReceived(byte[] buffer, long offset, long size)
            {
                if (WebSocket.IsOpen) ReceiveFrames(buffer, offset, size);
                else base.OnReceived(buffer, offset, size);
            }

            /// <summary>The header of a request was read: one that asks to upgrade is answered.</summary>
            /// <param name="request">The request, without its body.</param>
            protected override void OnReceivedRequestHeader(HttpRequest request) => WebSocket.PerformServerUpgrade(request, Response);

            /// <summary>
            /// A request is there: one that has upgraded the session (after <see cref="OnWsConnected(HttpRequest)"/>; no response can be sent to it), one that did not ask for an
            /// upgrade, or one that was refused. The default answers an upgrade that <see cref="OnWsConnecting(HttpRequest, HttpResponse)"/> has refused and that has
            /// no answer yet, with the response that was composed there or with 403, and ends the connection.
            /// </summary>
            /// <param name="request">The request.</param>
            protected override void OnReceivedRequest(HttpRequest request)
            {
                if (WebSocket.IsRefused && !IsAnswered) WebSocket.AnswerRefused(Response);
            }

            /// <summary>A request broke a rule.</summary>
            /// <param name="request">What there is of it.</param>
            /// <param name="error">Which rule.</param>
            protected override void OnReceivedRequestError(HttpRequest request, string error) => base.OnReceivedRequestError(request, error);

        {{Told("Close();")}}

            /// <summary>Sends the answer to a request to upgrade. One that refuses it is the last answer of its connection.</summary>
            /// <param name="response">The answer.</param>
            public void SendUpgrade(HttpResponse response)
            {
                ArgumentNullException.ThrowIfNull(response);
                bool isRefusal = response.Status != 101;
                if (isRefusal) response.Message.AddFirst("Connection", "close");
                SendResponseAsync(response);
                if (isRefusal) RefuseMore();
            }

            void IWsOwner.Opening() => Link.JoinHeld(((Ws{{v.S}}Server)Server).OpenSockets);

            void IWsOwner.Opened() => Link.OpenGate(((Ws{{v.S}}Server)Server).OpenSockets);

            void IWsOwner.Closing() => Link.Leave(((Ws{{v.S}}Server)Server).OpenSockets);

        {{Owner("Disconnect")}}
        }

        """;

    internal static string Client(Variant v) => $$"""
        using System.Net;
        using System.Net.Sockets;
        using Whimbrel.Compat;
        using Whimbrel.Http;

        namespace NetCoreServer;

        /// <summary>
        /// A client of a WebSocket{{v.Over}}: fill its request in <see cref="OnWsConnecting(HttpRequest)"/>, and override <see cref="OnWsReceived"/>. Frames are read strictly,
        /// within limits (<see cref="WebSocket"/>).
        /// </summary>
        public class Ws{{v.S}}Client : Http{{v.S}}Client, IWebSocket, IWsOwner
        {
            private bool _isBlocking;

        {{Members.Constructors(v, $"Ws{v.S}Client", " => WebSocket = new WebSocket(this);")}}
            /// <summary>The key of the handshake: 16 bytes, for Sec-WebSocket-Key in base64. Another one for each connection.</summary>
            public byte[] WsNonce => WebSocket.Nonce;

            internal WebSocket WebSocket { get; }

            private protected override bool IsUpgraded => WebSocket.IsOpen;

            /// <summary>Connects, and asks to upgrade.</summary>
            /// <returns>False: it is connected already, or there is no connection to be had.</returns>
            public override bool Connect()
            {
                _isBlocking = true;
                return base.Connect();
            }

            /// <summary>Begins to connect; asks to upgrade then.</summary>
            /// <returns>False: it is connected already, or about to be.</returns>
            public override bool ConnectAsync()
            {
                _isBlocking = false;
                return base.ConnectAsync();
            }

        {{Closing("Close", "SendClose", "Disconnect")}}

        {{Closing("CloseAsync", "SendCloseAsync", "DisconnectAsync")}}

        {{Sending()}}
            /// <summary>Asks to upgrade.</summary>
            protected override void On{{v.Ready}}()
            {
                WebSocket.ClearWsBuffers();
                Request.Clear();
                OnWsConnecting(Request);
                if (Request.IsEmpty) return;
                Request.SetBody();
                if (_isBlocking) SendRequest(Request);
                else SendRequestAsync(Request);
            }

            /// <summary>The connection is about to end: a WebSocket that was not closed is.</summary>
            protected override void OnDisconnecting()
            {
                if (!WebSocket.IsOpen) return;
                WsSending.QueueClose(WebSocket, this, (int)WebSocketStatus.GoingAway, default);
                OnWsDisconnecting();
            }

            /// <summary>The connection has ended.</summary>
            protected override void OnDisconnected()
            {
                base.OnDisconnected();
                bool wasOpen = WebSocket.IsOpen;
                Request.Clear();
                WebSocket.ClearWsBuffers();
                WebSocket.InitWsNonce();
                if (wasOpen) OnWsDisconnected();
            }

            /// <summary>Reads frames, and the answer to the upgrade before.</summary>
            /// <param name="buffer">Where their bytes lie. Frames are unmasked in place.</param>
            /// <param name="offset">Where they begin.</param>
            /// <param name="size">How many they are.</param>
            protected override void OnReceived(byte[] buffer, long offset, long size)
            {
                if (WebSocket.IsOpen) ReceiveFrames(buffer, offset, size);
                else base.OnReceived(buffer, offset, size);
            }

            /// <summary>The header of a response was read: one that upgrades is judged.</summary>
            /// <param name="response">The response, without its body.</param>
            protected override void OnReceivedResponseHeader(HttpResponse response) => WebSocket.PerformClientUpgrade(response, Id);

            /// <summary>A response is there that does not upgrade: an error of the WebSocket.</summary>
            /// <param name="response">The response.</param>
            protected override void OnReceivedResponse(HttpResponse response)
            {
                OnWsError($"The server did not upgrade: {response.Status} {response.StatusPhrase}.");
                DisconnectAsync();
            }

            /// <summary>A response broke a rule.</summary>
            /// <param name="response">What there is of it.</param>
            /// <param name="error">Which rule.</param>
            protected override void OnReceivedResponseError(HttpResponse response, string error)
            {
                OnWsError(error);
                base.OnReceivedResponseError(response, error);
            }

        {{Told("CloseAsync();")}}

        {{Owner("DisconnectAsync")}}
        }

        """;

    private static string Closing(string close, string send, string disconnect) => $$"""
            /// <summary>Sends a close without a status, and disconnects when it has left.</summary>
            /// <returns>True.</returns>
            public virtual bool {{close}}() => {{close}}(0, ReadOnlySpan<byte>.Empty);

            /// <summary>Sends a close, and disconnects when it has left.</summary>
            /// <param name="status">1000 to 1003, 1007 to 1014, 3000 to 4999; 0 for none. Any other number is sent as 1000.</param>
            /// <returns>True.</returns>
            public virtual bool {{close}}(int status) => {{close}}(status, ReadOnlySpan<byte>.Empty);

        {{Members.Forms($"public virtual bool {close}", "Sends a close with a reason, and disconnects when it has left.", "True.", $$"""

                {
                    {{send}}(status, buffer);
                    base.{{disconnect}}();
                    return true;
                }
            """, "int status")}}
        """;

    private static string Sending() => string.Join("\n\n", s_kinds.Select(static k => Members.Twice((a, result, how, gives) => Members.Forms($"public {result} Send{k.Kind}{a}", $"Sends {k.What}{how}.", gives,
        k.Kind == "Close" ? $" => WsSending.{(a.Length > 0 ? "QueueClose" : "SendClose")}(WebSocket, this, status, buffer);" : $" => WsSending.{(a.Length > 0 ? "Queue" : "Send")}(WebSocket, this, WebSocketPart.{k.Kind}, buffer);",
        k.Kind == "Close" ? "int status" : "")).TrimEnd('\n'))) + """


            /// <summary>Waits for the next message, and gives it as text. For who has connected by the blocking call.</summary>
            /// <returns>What has come of it, when the connection ends before its end.</returns>
            public string ReceiveText() => ReceiveBinary().ToString();

            /// <summary>Waits for the next message. For who has connected by the blocking call.</summary>
            /// <returns>Empty, when the connection ends before its end.</returns>
            public Buffer ReceiveBinary() => WsSending.Receive(WebSocket, this);

        """;

    private static string Told(string close) => $$"""
            /// <inheritdoc/>
            public virtual void OnWsConnecting(HttpRequest request)
            {
            }

            /// <inheritdoc/>
            public virtual void OnWsConnected(HttpResponse response)
            {
            }

            /// <inheritdoc/>
            public virtual bool OnWsConnecting(HttpRequest request, HttpResponse response) => true;

            /// <inheritdoc/>
            public virtual void OnWsConnected(HttpRequest request)
            {
            }

            /// <inheritdoc/>
            public virtual void OnWsDisconnecting()
            {
            }

            /// <inheritdoc/>
            public virtual void OnWsDisconnected()
            {
            }

            /// <inheritdoc/>
            public virtual void OnWsReceived(byte[] buffer, long offset, long size)
            {
            }

            /// <summary>The peer closes. The default closes as well.</summary>
            /// <param name="buffer">Where its reason lies.</param>
            /// <param name="offset">Where that begins.</param>
            /// <param name="size">How many bytes it has.</param>
            /// <param name="status">Its status; 1000 when it said none.</param>
            public virtual void OnWsClose(byte[] buffer, long offset, long size, int status = 1000) => {{close}}

            /// <summary>A ping. The default answers it.</summary>
            /// <param name="buffer">Where its payload lies.</param>
            /// <param name="offset">Where that begins.</param>
            /// <param name="size">How many bytes it has.</param>
            public virtual void OnWsPing(byte[] buffer, long offset, long size) => SendPongAsync(buffer, offset, size);

            /// <inheritdoc/>
            public virtual void OnWsPong(byte[] buffer, long offset, long size)
            {
            }

            /// <summary>The peer broke a rule. The default tells of an error of the connection.</summary>
            /// <param name="error">Which.</param>
            public virtual void OnWsError(string error) => OnError(SocketError.SocketError);

            /// <summary>The connection failed. The default tells of an error of the connection.</summary>
            /// <param name="error">How.</param>
            public virtual void OnWsError(SocketError error) => OnError(error);
        """;

    private static string Owner(string disconnect) => $$"""
            bool IWsOwner.Queue(ReadOnlySpan<byte> bytes) => SendAsync(bytes);

            long IWsOwner.SendNow(ReadOnlySpan<byte> bytes) => Send(bytes);

            long IWsOwner.ReceiveNow(byte[] buffer, long offset, long size) => Receive(buffer, offset, size);

            // Who breaks a rule is told which, and nothing of theirs is read any more.
            private void ReceiveFrames(byte[] buffer, long offset, long size)
            {
                WebSocket.PrepareReceiveFrame(buffer, offset, size);
                if (WebSocket.Verdict is not { } status) return;
                WsSending.QueueClose(WebSocket, this, (int)status, default);
                {{disconnect}}();
            }
        """;
}
