using Whimbrel.Examples;
using Whimbrel.Http;

await using HttpPool pool = new(ReverseProxy.Habits);
await using HttpServer proxy = ReverseProxy.Create(args[0], new Uri(args[1]), pool);
await proxy.StartAsync();
Console.WriteLine($"http://{proxy.EndPoint} asks {args[1]}. Enter stops.");
Console.ReadLine(); // dotnet run -- http://127.0.0.1:8080 http://127.0.0.1:1111
