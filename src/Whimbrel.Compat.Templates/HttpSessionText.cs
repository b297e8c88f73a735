namespace Whimbrel.Compat.Templates;

/// <summary>Http*Session</summary>
internal static class HttpSessionText
{
    internal static string Text(Variant v) => $$"""
        using Whimbrel.Compat;

        namespace NetCoreServer;

        /// <summary>
        /// The server's side of an HTTP/1.1 connection{{v.Over}}: override <see cref="OnReceivedRequest"/> and send a response. Requests are read strictly, within limits, and told in
        /// their order (<see cref="HttpServing"/>).
        /// </summary>
        public class Http{{v.S}}Session : {{v.Transport}}Session, IHttpServed
        {
            private readonly HttpServing _http;

            /// <summary>Makes the session of a connection.</summary>
            /// <param name="server">Its server.</param>
            public Http{{v.S}}Session(Http{{v.S}}Server server)
                : base(server)
            {
                ArgumentNullException.ThrowIfNull(server);
                Cache = server.Cache;
                _http = new HttpServing(this, server.Limits);
            }

            /// <summary>What is answered without asking this session: the server's.</summary>
            public FileCache Cache { get; }

            /// <summary>The request under way. Cleared when its callback has returned.</summary>
            protected HttpRequest Request => _http.Request;

            /// <summary>For the response: compose it and send it.</summary>
            public HttpResponse Response => _http.Response;

            bool IHttpServed.IsUpgraded => IsUpgraded;

            FileCache IHttpServed.Files => Cache;

            private protected virtual bool IsUpgraded => false;

        {{Members.Twice((a, result, how, gives) => Responses(a, result, how, gives))}}
            /// <summary>Reads requests. Call it with bytes of your own making, or leave it alone.</summary>
            /// <param name="buffer">Where they lie.</param>
            /// <param name="offset">Where they begin.</param>
            /// <param name="size">How many they are.</param>
            protected override void OnReceived(byte[] buffer, long offset, long size) => _http.Receive(buffer, offset, size);

            /// <summary>The connection has ended. A request that was not whole is told as an error.</summary>
            protected override void OnDisconnected() => _http.Ended();

            /// <summary>The header of a request was read; its body comes.</summary>
            /// <param name="request">The request, without its body.</param>
            protected virtual void OnReceivedRequestHeader(HttpRequest request)
            {
            }

            /// <summary>A request is there: answer it, here or later.</summary>
            /// <param name="request">The request. Cleared when this has returned.</param>
            protected virtual void OnReceivedRequest(HttpRequest request)
            {
            }

            /// <summary>A GET is there that the cache can answer. The default sends that.</summary>
            /// <param name="request">The request.</param>
            /// <param name="content">The whole response. Not to be changed.</param>
            protected virtual void OnReceivedCachedRequest(HttpRequest request, byte[] content) => SendAsync(content);

            /// <summary>A request broke a rule, or was not finished. It is answered, and the connection ends.</summary>
            /// <param name="request">What there is of it.</param>
            /// <param name="error">Which rule.</param>
            protected virtual void OnReceivedRequestError(HttpRequest request, string error)
            {
            }

            void IHttpServed.TellHeader(HttpRequest request) => OnReceivedRequestHeader(request);

            void IHttpServed.TellRequest(HttpRequest request) => OnReceivedRequest(request);

            void IHttpServed.TellCached(HttpRequest request, byte[] content) => OnReceivedCachedRequest(request, content);

            void IHttpServed.TellError(HttpRequest request, string error) => OnReceivedRequestError(request, error);

            void IHttpServed.TellUpgraded(byte[] buffer, long offset, long size) => OnReceived(buffer, offset, size);

            bool IHttpServed.Give(ReadOnlySpan<byte> bytes) => SendAsync(bytes);

            void IHttpServed.End() => Disconnect();

            /// <summary>The request got its last answer.</summary>
            private protected void RefuseMore() => _http.NoteRefusal();

            private protected bool IsAnswered => _http.IsAnswered;
        }

        """;

    private static string Responses(string a, string result, string how, string gives) => $$"""
            /// <summary>Sends <see cref="Response"/>{{how}}.</summary>
            /// <returns>{{gives}}</returns>
            public {{result}} SendResponse{{a}}() => SendResponse{{a}}(Response);

            /// <summary>Sends a response{{how}}.</summary>
            /// <param name="response">The response. Copied.</param>
            /// <returns>{{gives}}</returns>
            public {{result}} SendResponse{{a}}(HttpResponse response)
            {
                ArgumentNullException.ThrowIfNull(response);
                if (!_http.TakesAnswers) return {{(result == "bool" ? "false" : "0")}};
                _http.Dress(response);
                {{result}} sent = Send{{a}}(response.Cache.AsSpan());
                _http.NoteAnswer(response);
                return sent;
            }

        {{Members.Forms($"public {result} SendResponseBody{a}", $"Sends a part of the body of a response{how}.", gives, $$"""

                {
                    {{result}} sent = Send{{a}}(buffer);
                    _http.NoteBody(buffer.Length);
                    return sent;
                }
            """, text: "body")}}
        """;
}
