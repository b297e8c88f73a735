namespace Whimbrel.Compat.Templates;

/// <summary>Http*Client</summary>
internal static class HttpClientText
{
    internal static string Text(Variant v) => $$"""
        using System.Net;
        using Whimbrel.Compat;

        namespace NetCoreServer;

        /// <summary>
        /// A client of HTTP/1.1{{v.Over}}: send requests, and override <see cref="OnReceivedResponse"/>. Responses are read strictly, within limits, and told in the order of the
        /// requests (<see cref="HttpAsking"/>). Host is added where a request has none.
        /// </summary>
        public class Http{{v.S}}Client : {{v.Transport}}Client, IHttpAsking
        {
            private const int UsualPort = {{v.Port}};

            private readonly HttpAsking _http;

        {{Members.Constructors(v, $"Http{v.S}Client", " => _http = new HttpAsking(this);")}}
            /// <summary>For the request: compose it and send it.</summary>
            public HttpRequest Request
            {
                get => _http.Request;
                protected set => _http.Request = value;
            }

            /// <summary>The response that is being read.</summary>
            protected HttpResponse Response
            {
                get => _http.Response;
                set => _http.Response = value;
            }

            bool IHttpAsking.IsUpgraded => IsUpgraded;

            private protected virtual bool IsUpgraded => false;

            private protected HttpAsking Asking => _http;

        {{Members.Twice((a, result, how, gives) => Requests(a, result, how, gives))}}
            /// <summary>Reads responses.</summary>
            /// <param name="buffer">Where their bytes lie.</param>
            /// <param name="offset">Where they begin.</param>
            /// <param name="size">How many they are.</param>
            protected override void OnReceived(byte[] buffer, long offset, long size) => _http.Receive(buffer, offset, size);

            /// <summary>The connection has ended. A response that ends with it is told.</summary>
            protected override void OnDisconnected()
            {
                _http.Ended();
                _http.Begin();
            }

            /// <summary>The header of a response was read; its body comes.</summary>
            /// <param name="response">The response, without its body.</param>
            protected virtual void OnReceivedResponseHeader(HttpResponse response)
            {
            }

            /// <summary>A response is there.</summary>
            /// <param name="response">The response. Cleared when this has returned.</param>
            protected virtual void OnReceivedResponse(HttpResponse response)
            {
            }

            /// <summary>A response broke a rule, or was not finished. The connection ends.</summary>
            /// <param name="response">What there is of it.</param>
            /// <param name="error">Which rule.</param>
            protected virtual void OnReceivedResponseError(HttpResponse response, string error)
            {
            }

            void IHttpAsking.TellHeader(HttpResponse response) => OnReceivedResponseHeader(response);

            void IHttpAsking.TellResponse(HttpResponse response) => OnReceivedResponse(response);

            void IHttpAsking.TellError(HttpResponse response, string error) => OnReceivedResponseError(response, error);

            void IHttpAsking.TellUpgraded(byte[] buffer, long offset, long size) => OnReceived(buffer, offset, size);

            void IHttpAsking.Settle() => Settle();

            void IHttpAsking.End() => DisconnectAsync();

            private protected virtual void Settle()
            {
            }
        }

        """;

    private static string Requests(string a, string result, string how, string gives) => $$"""
            /// <summary>Sends <see cref="Request"/>{{how}}.</summary>
            /// <returns>{{gives}}</returns>
            public {{result}} SendRequest{{a}}() => SendRequest{{a}}(Request);

            /// <summary>Sends a request{{how}}.</summary>
            /// <param name="request">The request. Copied.</param>
            /// <returns>{{gives}}</returns>
            public {{result}} SendRequest{{a}}(HttpRequest request) => _http.Report(request, Address, Port, UsualPort) ? Send{{a}}(request.Cache.AsSpan()) : default;

        {{Members.Forms($"public {result} SendRequestBody{a}", $"Sends a part of the body of a request{how}.", gives, $" => Send{a}(buffer);", text: "body")}}
        """;
}
